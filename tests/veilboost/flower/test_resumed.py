"""Nodes that show what others have seen of a party, when its node is lost in the middle of a run."""

import pytest

from flower_hospitals import FakeCarrier, Forging, Hospitals, exact_in_process, in_process, pin, write_files
from gbdt_parties import messages
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.messages import Done
from gbdt_parties.secure_sum.messages import AskModel, AskSum, Contributed, FinishedModel, Introduced, OpenRun
from veilboost.flower import channel
from veilboost.flower.carrier import NodeReply
from veilboost.flower.training import train_over

pytest.importorskip("pyarrow")
pytest.importorskip("grpc")


class Replaying:
    """A node that introduces itself as a party has done, and makes up all other answers.

    Parameters
    ----------
    name : str
    introduced : Introduced
        What the party said, which all other parties and nodes have seen.
    """

    def __init__(self, name, introduced):
        self.name, self.introduced, self.made_up = name, introduced, 0

    def __call__(self, requests):
        return NodeReply(self.name, [self._answer(messages.read(one)) for one in requests])

    def _answer(self, request):
        asked, answer = request.message, Done()
        if isinstance(asked, OpenRun):
            known = max(asked.n_known, 0)
            answer = Introduced(self.introduced.introduction, self.introduced.description, known)
        elif isinstance(asked, AskSum):
            self.made_up += 1
            answer = Contributed(bytes(100))
        elif isinstance(asked, AskModel):
            self.made_up += 1
            answer = FinishedModel(bytes(32), bytes(32), b"", b"")
        return messages.write(request.session, request.sequence, answer)


@pytest.mark.parametrize("method", ["private", pytest.param("exact", marks=pytest.mark.slow)])
def test_a_node_that_shows_anothers_introduction_again_spoils_no_run(tmp_path, monkeypatch, method):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(channel, "SECONDS_BETWEEN_LOOKS", 0.01)
    pin(monkeypatch.setattr)
    write_files(tmp_path, method, rounds=3, timeout=1.0, patience=60.0)
    seen = []

    def disturb(number, name, answer):
        reply = answer()
        if name == "south" and number == 1:
            seen.append(messages.read(reply.answers[0]).message)
        if name == "south" and number == 6 and not carrier.liars:
            carrier.liars = {5: Replaying("south", seen[0])}
            carrier.restart("south")
            return None
        return reply

    with Hospitals(tmp_path) as running:
        carrier = FakeCarrier(running, disturb)
        train_over(carrier, "plan.toml")
    assert not carrier.liars[5].made_up
    if method == "private":
        assert (tmp_path / "model" / "model.txt").read_text() == in_process(tmp_path, 3)
    else:
        assert (tmp_path / "model" / "model.json").read_bytes() == exact_in_process(tmp_path, 3)


@pytest.mark.parametrize("method", [pytest.param("private", marks=pytest.mark.slow), "exact"])
def test_a_node_with_keys_of_its_own_does_not_end_a_run_that_is_taken_up(tmp_path, monkeypatch, method):
    """The coordinator's process is another one, which has not seen the party sign."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(channel, "SECONDS_BETWEEN_LOOKS", 0.01)
    pin(monkeypatch.setattr)
    write_files(tmp_path, method, rounds=3, timeout=0.5, patience=0.0)
    plan = (tmp_path / "plan.toml").read_text()
    with Hospitals(tmp_path) as running:
        stopped = FakeCarrier(running, lambda number, name, answer: answer() if number < 7 else None)
        with pytest.raises(PartyUnavailableError):
            train_over(stopped, "plan.toml")
        (tmp_path / "plan.toml").write_text(plan.replace("patience = 0.0", "patience = 60.0"))
        carrier = FakeCarrier(running)
        carrier.liars = {5: Forging(tmp_path, "south"), 6: Forging(tmp_path, "west")}
        train_over(carrier, "plan.toml")
        assert carrier.liars[5].n_opened == carrier.liars[6].n_opened == 1
    if method == "private":
        assert (tmp_path / "model" / "model.txt").read_text() == in_process(tmp_path, 3)
    else:
        assert (tmp_path / "model" / "model.json").read_bytes() == exact_in_process(tmp_path, 3)

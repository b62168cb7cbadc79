"""The coordinator's progress: in memory and in a folder alike, and what a folder refuses."""

import pytest

from gbdt_parties.errors import PartyArgumentError, PartyUnavailableError
from gbdt_parties.run.progress import STORE_FILE, Checkpoint, Memory
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.roster import Introduction, Roster, SignedEnd
from gbdt_parties.secure_sum.trust import Credentials
from kept_stores import damage

RUN, NAMES = b"r" * 16, ["ada", "bob"]
ROSTER = Roster(
    RUN, bytes(32), tuple(Introduction.of(n, Credentials.self_signed(n), SessionKeys()) for n in NAMES)
)


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    return Memory() if request.param == "memory" else Checkpoint(tmp_path, PartyArgumentError)


def begun(progress):
    progress.note_start(ROSTER, [b"one", b"other"], "task")
    for number in range(3):
        progress.note_attempt(number + 1, [0, 1])
        progress.note_opened(b"sum %d" % number, sync=False)
    progress.note_attempt(7, [1])


def check(progress):
    assert (progress.roster, progress.endorsements, progress.task) == (ROSTER, [b"one", b"other"], "task")
    assert (progress.n_opened, progress.attempt, progress.model) == (3, (7, (1,)), b"")
    assert [progress.opened(k) for k in range(3)] == [b"sum 0", b"sum 1", b"sum 2"]


def test_progress_is_what_was_noted(store):
    with store.taken_up("about", NAMES) as progress:
        assert progress.roster is None
        begun(progress)
        check(progress)
        progress.note_opened(b"sum 3", sync=True)
        assert (progress.n_opened, progress.attempt) == (4, None)
        end = SignedEnd(ROSTER, [b"one", b"other"], bytes(32), [bytes(32)], [b"", b"signature"])
        progress.note_model(b"model", end)
        assert (progress.model, SignedEnd.from_json(progress.signatures)) == (b"model", end)


def test_progress_in_a_folder_is_taken_up_again(tmp_path):
    with Checkpoint(tmp_path, PartyArgumentError).taken_up("about", NAMES) as progress:
        begun(progress)
        assert progress.n_starts == 1
    with Checkpoint(tmp_path, PartyArgumentError).taken_up("about", NAMES) as progress:
        check(progress)
        progress.note_start(ROSTER, [b"one", b"other"], "task")
        assert progress.n_starts == 2
    Checkpoint(tmp_path, PartyArgumentError).clear()
    with Checkpoint(tmp_path, PartyArgumentError).taken_up("another", NAMES) as progress:
        assert progress.n_starts == 0


def test_memory_of_the_latest_sums_has_no_others():
    with Memory(only_last=True).taken_up("about", NAMES) as progress:
        begun(progress)
        assert progress.opened(2) == b"sum 2"
        with pytest.raises(PartyUnavailableError, match="kept any more"):
            progress.opened(0)


def test_another_run_a_damaged_journal_and_a_folder_in_use_are_refused_by_name(tmp_path):
    checkpoint = Checkpoint(tmp_path, PartyArgumentError)
    with checkpoint.taken_up("about", NAMES) as progress:
        begun(progress)
        with pytest.raises(PartyArgumentError, match="in use"), checkpoint.taken_up("about", NAMES):
            pass
    path = tmp_path / STORE_FILE
    content = path.read_bytes()
    for about, names in (("another", NAMES), ("about", NAMES[::-1])):
        with pytest.raises(PartyArgumentError, match="data, parameters"):
            checkpoint.taken_up(about, names).__enter__()
    damage(path, b"sum 1", b"sum 7")
    damaged = path.read_bytes()
    with pytest.raises(PartyArgumentError, match=r"; remove.*anew"):
        checkpoint.taken_up("about", NAMES).__enter__()
    assert path.read_bytes() == damaged
    path.write_bytes(content)
    with checkpoint.taken_up("about", NAMES) as progress:
        check(progress)

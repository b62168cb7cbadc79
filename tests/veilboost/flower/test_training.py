"""What a Flower app refuses before training begins."""

import pytest

from flower_hospitals import FakeCarrier, Hospitals, write_files
from veilboost.flower.training import train_over
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import read_plan
from veilboost.running.private import largest_message

pytest.importorskip("pyarrow")
pytest.importorskip("grpc")


def test_a_plan_whose_messages_would_be_in_clear_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    text = (tmp_path / "plan.toml").read_text()
    part = text.split("[training]")[0]
    (tmp_path / "plan.toml").write_text(part.replace('"private"', '"simfl"') + "[training]\nrounds = 3\n")
    carrier = FakeCarrier(Hospitals(tmp_path))
    with pytest.raises(PlanError, match=r"method='simfl'.*\['private', 'exact'\]"):
        train_over(carrier, "plan.toml")
    assert not carrier.replies


@pytest.mark.parametrize(
    ("depth", "per_round", "classes", "n_leaves"),
    [("16", 16, 1, 2**16), ("16", 1, 12, 2**16), ("-1", 2000, 1, 2**9)],
)
def test_messages_that_parties_do_not_take_are_refused_before_a_node_is_asked(
    tmp_path, monkeypatch, depth, per_round, classes, n_leaves
):
    """Else the budget would be spent on a run whose rounds end it."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, rounds=2000, per_round=per_round)
    text = (tmp_path / "plan.toml").read_text().replace("max_depth = 3", f"max_depth = {depth}")
    if classes > 1:
        text = text.replace('objective = "binary"', f'objective = "multiclass"\nnum_class = {classes}')
    (tmp_path / "plan.toml").write_text(text)
    n_bytes = largest_message(read_plan("plan.toml"))
    assert n_bytes >= 3 * 8 * 4 * n_leaves * per_round * classes
    carrier = FakeCarrier(Hospitals(tmp_path))
    with pytest.raises(PlanError, match=f"{n_bytes} bytes.*takes 67108864"):
        train_over(carrier, "plan.toml")
    assert not carrier.replies


def test_no_message_is_longer_than_the_bound(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, rounds=6)
    sent = []
    with Hospitals(tmp_path) as running:
        carrier = FakeCarrier(running)
        push = carrier.push
        carrier.push = lambda to, parts, seconds: sent.extend(map(len, parts)) or push(to, parts, seconds)
        train_over(carrier, "plan.toml")
    assert 1_000 < max(sent) <= largest_message(read_plan("plan.toml"))

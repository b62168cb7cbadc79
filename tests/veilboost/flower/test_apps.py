"""What a Flower app refuses before training begins."""

import pytest

from flower_hospitals import FakeCarrier, write_files
from veilboost.flower.apps import MAX_MESSAGE_BYTES, largest_message, train_over
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import read_plan

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_messages_that_would_be_too_long_are_refused_before_any_node_is_asked(folder):
    write_files(folder, rounds=1_500_000)
    carrier = FakeCarrier(folder)
    with pytest.raises(PlanError, match=rf"Flower takes {MAX_MESSAGE_BYTES}; training\.rounds"):
        train_over(carrier, "plan.toml")
    assert not carrier.replies
    assert not carrier.sent


@pytest.mark.parametrize(
    ("instead", "depth", "n_classes"),
    [
        ("max_depth = -1", 9, 1),
        ("num_leaves = 16384", 14, 1),
        ("", 9, 1),
        ('max_depth = 3\nnum_classes = 7\napplication = "multiclass"', 3, 7),
    ],
)
def test_the_bound_is_that_of_the_parameters_as_parties_read_them(folder, instead, depth, n_classes):
    """Else the budget could be spent on a run whose last messages Flower does not take."""
    write_files(folder, rounds=100)
    text = (folder / "plan.toml").read_text()
    if n_classes > 1:
        text = text.replace('objective = "binary"\n', "")
    (folder / "plan.toml").write_text(text.replace("max_depth = 3", instead))
    values = 100 * 4 * n_classes * 2**depth
    assert largest_message(read_plan("plan.toml")) >= 3 * 8 * values


def test_no_message_is_longer_than_the_bound(folder):
    write_files(folder, rounds=6)
    carrier = FakeCarrier(folder)
    train_over(carrier, "plan.toml")
    longest = max(sum(map(len, sent)) for _, sent in carrier.sent)
    assert longest < largest_message(read_plan("plan.toml"))


def test_a_plan_of_another_method_is_refused(folder):
    write_files(folder)
    text = (folder / "plan.toml").read_text()
    part = text.split("[training]")[0]
    exact = part.replace('"private"', '"exact"') + "[training]\nrounds = 3\n"
    (folder / "plan.toml").write_text(exact)
    with pytest.raises(PlanError, match="method='exact' must be 'private' for a Flower app"):
        train_over(FakeCarrier(folder), "plan.toml")

"""What a Flower app refuses before training begins."""

import pytest

from flower_hospitals import FakeCarrier, Hospitals, write_files
from veilboost.flower.training import train_over
from veilboost.plans.entries import PlanError

pytest.importorskip("pyarrow")


def test_a_plan_whose_messages_would_be_in_clear_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    text = (tmp_path / "plan.toml").read_text()
    part = text.split("[training]")[0]
    (tmp_path / "plan.toml").write_text(part.replace('"private"', '"simfl"') + "[training]\nrounds = 3\n")
    carrier = FakeCarrier(Hospitals(tmp_path))
    with pytest.raises(PlanError, match=r"method='simfl' must be one of \['private', 'exact'\]"):
        train_over(carrier, "plan.toml")
    assert not carrier.replies

"""Settings of runs across parties as one text: the same whatever their order, and checked by its reader."""

import json

import numpy as np
import pytest

import lgb_dp
from columns_apart import PARAMS, own_rows
from extreme_requests import reasons_for_large_values
from lgb_dp.boosting.params import refuse_early_stopping
from lgb_dp.federated.task import FederatedTask, settings_of
from lgb_dp.vertical.task import ColumnTask
from lgb_dp.vertical.train import task_of


def of_rows(**params):
    settings = settings_of(lgb_dp.NewtonBoost(5.0, 1e-5))
    return FederatedTask({"objective": "binary", **params}, settings, 4, 5, 1, 2, 1)


def of_columns(**params):
    rows = own_rows().construct()
    return task_of({**PARAMS, **params}, rows, lgb_dp.NewtonBoost(30.0, 1e-5), 4, 2, "hospital", 300)


TASKS = [(of_rows, FederatedTask), (of_columns, ColumnTask)]


@pytest.mark.parametrize(("made", "kind"), TASKS)
def test_a_task_is_read_as_it_was_written(made, kind):
    task = made()
    assert kind.from_json(task.to_json()) == task
    reversed_order = json.dumps(dict(reversed(json.loads(task.to_json()).items())))
    assert kind.from_json(reversed_order).to_json() == task.to_json()


@pytest.mark.parametrize(("made", "kind"), TASKS)
@pytest.mark.parametrize("text", ["", "[]", "1", "{}", '{"a": 1}', "[" * 100_000])
def test_other_texts_are_not_of_this_version(made, kind, text):
    with pytest.raises(lgb_dp.InvalidArgumentError, match="of this version"):
        kind.from_json(text)


@pytest.mark.parametrize(("made", "kind"), TASKS)
def test_a_setting_that_is_missing_or_unknown_is_not_of_this_version(made, kind):
    values = json.loads(made().to_json())
    for wrong in ({**values, "more": 1}, {k: v for k, v in values.items() if k != "settings"}):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="of this version"):
            kind.from_json(json.dumps(wrong))


@pytest.mark.parametrize(("made", "kind"), TASKS)
@pytest.mark.parametrize("value", [len, float("inf"), np.arange(3)], ids=str)
def test_values_that_no_party_can_be_sent_are_refused_by_name(made, kind, value):
    with pytest.raises(lgb_dp.PrivateTrainingError, match="numbers and texts"):
        made(metric=value).to_json()


def test_early_stopping_is_refused_by_any_name():
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=r"early_stopping_round .* across parties"):
        refuse_early_stopping({"n_iter_no_change": 3}, "across parties")
    refuse_early_stopping({"early_stopping_round": 0}, "across parties")


@pytest.mark.parametrize(("made", "kind"), TASKS)
def test_refusals_are_short_however_large_the_value_is(made, kind):
    reasons = list(reasons_for_large_values(kind, made()))
    assert len(reasons) > 30
    assert max(map(len, reasons)) < 2000

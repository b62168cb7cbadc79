"""What an active party can compute from exact statistics is counted, said and limited."""

import logging
import math
from contextlib import nullcontext

import numpy as np
import pytest

import xgb_fed
from gbdt_commons.errors import StoreError
from gbdt_commons.store import json_kind
from gbdt_parties.errors import PartyRefusedError, ProtocolError
from kept_stores import end_process, restarted
from served_parties import Local
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.disclosed_statistics import GIVEN, DisclosedStatistics, nodes_of
from xgb_fed.vertical.passive.service import Limits, PassiveService

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((200, 3)).astype(np.float32)
OWN = RANDOM.standard_normal((200, 2)).astype(np.float32)
Y = (X[:, 0] + OWN[:, 0] > 0).astype(np.float32)


class Table:
    columns, ids, has_ids = read_columns(X, "X"), range(len(X)), False


def trained(service, n_trees, caller="acme"):
    parties = [Local(service, caller)]
    params = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 8}
    xgb_fed.train(
        params, xgb_fed.ActiveData(OWN, Y), parties, n_trees, cipher=xgb_fed.Plain(), verbose_eval=False
    )


def bank(folder, **limits):
    end_process(folder)
    return PassiveService(Table, folder, "bank", Limits(allow_plain=True, **limits))


def test_statistics_are_counted_over_runs_and_restarts_and_refused_beyond_the_limit(tmp_path):
    trained(bank(tmp_path, max_statistics=0.6), 4)
    trained(bank(tmp_path, max_statistics=0.6), 4, caller="other")  # of its own
    with pytest.raises(PartyRefusedError, match=r"0\.\d+ statistics per.*0\.6"):
        trained(bank(tmp_path, max_statistics=0.6), 4)


def test_the_log_warns_once_the_values_can_be_computed(tmp_path, caplog):
    with caplog.at_level(logging.WARNING, logger="xgb_fed"):
        trained(bank(tmp_path, max_statistics=math.inf), 3)
        assert "statistics per row" not in caplog.text
        trained(bank(tmp_path, max_statistics=math.inf), 12)
    assert caplog.text.count("can compute the bins of most values") == 1


def test_what_is_written_is_never_behind(tmp_path):
    given = DisclosedStatistics(1.0, restarted(tmp_path))
    for _ in range(50):
        given.add(1, 1, 300)
        given.store = restarted(tmp_path)
        assert DisclosedStatistics(1.0, given.store).per_row >= given.per_row
    assert given.per_row == pytest.approx(0.5)
    with pytest.raises(ProtocolError, match="at most 1"):
        given.add(51, 1, 300)
    assert given.per_row == pytest.approx(0.5)
    end_process(tmp_path)
    path = tmp_path / "party.store"
    path.write_bytes(path.read_bytes().replace(b"0.501", b"0.101"))
    with pytest.raises(StoreError, match="damaged at record"):
        restarted(tmp_path)


def test_a_limit_that_is_not_a_number_limits():
    with pytest.raises(ProtocolError, match="at most nan"):
        DisclosedStatistics(float("nan")).add(1, 1, 300)


@pytest.mark.parametrize(
    "per_row", [10**400, -1, -0.5, math.inf, -math.inf, math.nan, True, "0.5", None, [1]]
)
def test_a_record_whose_number_is_no_count_is_refused(tmp_path, per_row):
    store = restarted(tmp_path)
    store.put(json_kind(GIVEN.name), "", per_row)
    with pytest.raises(StoreError, match="cannot be read"):
        DisclosedStatistics(1.0, store)


@pytest.mark.parametrize("per_row", [0, 0.5, 3])
def test_a_record_with_a_count_is_read(tmp_path, per_row):
    store = restarted(tmp_path)
    store.put(json_kind(GIVEN.name), "", per_row)
    assert DisclosedStatistics(1.0, store).per_row == per_row


@pytest.mark.parametrize(
    ("n_trees", "max_depth", "n_rows", "fits"),
    [
        (100, 5, 150_000, True),
        (1000, 5, 150_000, False),
        (30, 3, 300, False),
        (2, 3, 300, True),
        (0, 30, 300, True),
    ],
)
def test_a_run_that_cannot_end_is_not_begun(n_trees, max_depth, n_rows, fits):
    """Before, the second run of a month died at its twelfth tree."""
    given = DisclosedStatistics(0.25)
    n_nodes = nodes_of(n_trees, max_depth, n_rows // 10)
    with nullcontext() if fits else pytest.raises(ProtocolError, match=rf"{n_trees} trees.*0\.25 left"):
        given.check_plan(n_trees, n_nodes, 1, n_rows)
    assert given.per_row == 0

"""Splits of one column must be cuts of one order of the rows, over all trees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from placed_rows import left_of, places_of
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.protocol.messages import FindSplits, StartTree
from xgb_fed.vertical.protocol.splits import NamedSplit

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 4, "base_score": 0.5}


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_row_that_changes_sides_is_refused(data):
    """Without missing values, a row left of one threshold is never right of a higher one."""
    n_bins = data.draw(st.integers(2, 6))
    codes = np.array(data.draw(st.lists(st.integers(0, n_bins - 1), min_size=2, max_size=20)))
    places = places_of(codes, n_bins)
    low, high = sorted(data.draw(st.tuples(*[st.integers(0, n_bins - 2)] * 2)))
    first, second = NamedSplit(0, low, False), NamedSplit(0, high, True)
    rows = np.arange(len(codes))
    left = left_of(codes, first, n_bins)
    if not left.any():
        return
    places.note(first, rows, left)
    moved = data.draw(st.sampled_from(np.flatnonzero(left).tolist()))
    with pytest.raises(ProtocolError, match="another side"):
        places.note(second, np.array([moved]), np.array([False]))


def test_more_rows_than_a_bin_has_are_refused():
    codes = np.array([0, 0, 1, 1, 1, 2])
    places = places_of(codes, 2)
    places.note(NamedSplit(0, 0, False), np.array([0, 1]), np.array([True, True]))
    with pytest.raises(ProtocolError, match="more rows"):
        places.note(NamedSplit(0, 0, False), np.array([2]), np.array([True]))


def test_more_rows_than_are_missing_are_refused():
    places = places_of(np.array([0, 1, 2, 0]), 2)
    rows = np.arange(4)
    places.note(NamedSplit(0, 0, True), rows, np.array([True, False, True, True]))
    with pytest.raises(ProtocolError, match=r"more rows|another side"):
        places.note(NamedSplit(0, 0, False), rows, np.array([False, False, False, True]))


class Redrawing:
    """Draws its columns anew for every tree, with as many rows in each bin as it announced."""

    name = "bank"

    def __init__(self, X):
        self.party, self.random = PassiveParty(read_columns(X), [], {}), np.random.default_rng(0)

    def handle(self, request):
        if isinstance(messages.read(request).message, StartTree):
            kept = list(self.party.sessions.values())[-1].kept
            order = self.random.permutation(kept.columns.n_rows)
            for values in (kept.bins.codes, kept.columns.data):
                values[:] = values[order]
        return self.party.handle(request)


def test_attack_by_columns_that_are_drawn_anew_for_every_tree_is_refused():
    random = np.random.default_rng(1)
    X, y = random.normal(size=(200, 3)), (random.random(200) < 0.5).astype(float)
    active = xgb_fed.ActiveData(random.normal(size=(200, 1)), y)
    how = {"cipher": xgb_fed.Plain(), "verbose_eval": False}
    with pytest.raises(ProtocolError, match=r"'bank': .*(another|more rows)"):
        xgb_fed.train(PARAMS, active, [Redrawing(X)], 10, **how)


class Wavering:
    """Is lost once it knows who won the root, and then has other columns."""

    name = "bank"

    def __init__(self, X):
        # A liar need not remember the run that it takes up again.
        self.party = PassiveParty(read_columns(X), [], {})

    def handle(self, request):
        message = messages.read(request).message
        if isinstance(message, FindSplits) and len(message.assignment):
            raise PartyUnavailableError("party 'bank' is unavailable")
        return self.party.handle(request)


def test_attack_by_a_loser_that_comes_back_with_other_statistics_is_refused(tmp_path):
    """The next question tells who won a level: by then the digest of what it said must be on the disk."""
    random = np.random.default_rng(2)
    y = (random.random(200) < 0.5).astype(float)
    strong = np.where(random.random(200) < 0.9, y, 1 - y)[:, None]
    weak = random.integers(0, 2, size=(200, 1)).astype(float)
    how = {"cipher": xgb_fed.Plain(), "verbose_eval": False, "checkpoint": tmp_path}
    with pytest.raises(PartyUnavailableError):
        xgb_fed.train(PARAMS, xgb_fed.ActiveData(strong, y), [Wavering(weak)], 1, **how)
    other = weak[random.permutation(200)]
    with pytest.raises(ProtocolError, match="fail the checks"):
        xgb_fed.train(PARAMS, xgb_fed.ActiveData(strong, y), [Wavering(other)], 1, **how)


def test_what_splits_told_outlives_the_process(tmp_path):
    random = np.random.default_rng(3)
    X, y = random.normal(size=(200, 2)), (random.random(200) < 0.5).astype(float)
    active = xgb_fed.ActiveData(random.normal(size=(200, 1)), y)
    how = {"cipher": xgb_fed.Plain(), "verbose_eval": False, "checkpoint": tmp_path}

    class Lost(Redrawing):
        def handle(self, request):
            message = messages.read(request).message
            if isinstance(message, StartTree) and message.tree == self.until:
                raise PartyUnavailableError("party 'bank' is unavailable")
            return self.party.handle(request) if self.honest else super().handle(request)

    party = Lost(X)
    party.until, party.honest = 3, True
    with pytest.raises(PartyUnavailableError):
        xgb_fed.train(PARAMS, active, [party], 8, **how)
    party.until, party.honest = -1, False
    # One tree on other columns: it is the splits of the first three trees that it does not fit.
    with pytest.raises(ProtocolError, match=r"'bank': .*(another|more rows)"):
        xgb_fed.train(PARAMS, active, [party], 8, **how)

"""A block follows from its rows in any order, and its coins are drawn for each row alone."""

import numpy as np

from lgb_dp.newton.releases.held_out_rows import HoldOut
from spark_training import FRAME, NAMES, X, binned


def content(monkeypatch, frame, size):
    """The sum over the blocks of one partition, of rows in batches."""
    rows = binned(monkeypatch, frame, 77, size, size)
    assert [row["fault"] for row in rows] == [None] * len(rows)
    assert [row["block"] for row in rows] == list(range(len(rows)))
    return sum(row["n_rows"] for row in rows), sum(row["content"] for row in rows) % 2**64


def mixed(frame, seed=0):
    return frame.iloc[np.random.default_rng(seed).permutation(len(frame))]


def test_order_and_blocks_leave_the_content_and_one_other_row_changes_it(monkeypatch):
    whole = content(monkeypatch, FRAME, len(X))
    for frame, size in ((FRAME, 50), (mixed(FRAME), 64), (mixed(FRAME), 1)):
        assert content(monkeypatch, frame, size) == whole
    for column, value in (("a", 2.9), ("e", -2.9), ("label", None)):
        other = FRAME.copy()
        other.loc[7, column] = 1 - other.loc[7, "label"] if value is None else value
        assert content(monkeypatch, other, 50) != whole
    assert content(monkeypatch, FRAME.iloc[1:], 50) != whole


def test_a_block_in_another_order_has_the_same_bytes(monkeypatch):
    """With persons who have more rows than are used, and equal rows of which some are held out."""
    frame = FRAME.assign(person=np.arange(len(X)) // 4)
    frame.loc[:40, [*NAMES, "label"]] = 0.0
    for persons, rows in ((True, frame), (False, frame.drop(columns="person"))):
        one, other = (
            binned(monkeypatch, given, 5, hold_out=HoldOut(0.3), persons=persons)
            for given in (rows, mixed(rows))
        )
        assert one == other
        assert 0 < sum(one[0]["held"]) < len(one[0]["held"]) == (len(X) // 2 if persons else len(X))
        assert binned(monkeypatch, rows, 6, hold_out=HoldOut(0.3), persons=persons) != one


def test_coins_of_rows_are_independent_whatever_they_hold(monkeypatch):
    """Held rows of a kind, over salts, have the mean and the variance of independent coins; one row more
    changes neither.
    """
    n, share, n_salts = 8, 0.3, 300
    (only,) = binned(monkeypatch, FRAME.iloc[[3]], 0)
    equal = FRAME.iloc[[3] * n + [5]].reset_index(drop=True)
    for frame, size in ((equal, 100), (equal.iloc[:-1], 100), (equal, 3)):
        found = []
        for salt in range(n_salts):
            made = binned(monkeypatch, frame, salt << 40, size, size, hold_out=HoldOut(share))
            rows = [(one["codes"][4 * k :][:4], held) for one in made for k, held in enumerate(one["held"])]
            own = [held for codes, held in rows if codes == only["codes"]]
            assert len(own) == n
            found.append(sum(own))
        assert abs(np.mean(found) - n * share) < 5 * np.sqrt(n * share * (1 - share) / n_salts)
        assert 0.6 < np.var(found) / (n * share * (1 - share)) < 1.6

"""A passive party that lies: one error, whatever the lie, and the estimator stays unfitted."""

import numpy as np
import pytest
import scipy.sparse

from compared_trees import compare, xgb_params
from gbdt_parties import messages
from gbdt_parties.errors import ConsentError, PartyRefusedError, ProtocolError
from liars import Liar, fit_with
from vertical_training import assert_same_trees, parties_of, problem, stock, train
from xgb_fed.boosting.features import bin_features, read_columns
from xgb_fed.vertical.protocol.messages import Assignments, ModelOpened

BRIEF = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 4, "base_score": 0.5}


def other_rows(answer, opening):
    """As many rows as before, but others."""
    bits = np.unpackbits(answer.left_rows)
    return {"left_rows": np.packbits(np.roll(bits[:60], 7))}


ASSIGNMENTS = {
    "too few flags": lambda a, o: {"left_rows": a.left_rows[:-1]},
    "flags beyond": lambda a, o: {"left_rows": a.left_rows | np.uint8(1)},
    "all left": lambda a, o: {"left_rows": np.packbits(np.ones(60, dtype=bool))},
    "none left": lambda a, o: {"left_rows": 0 * a.left_rows},
    "other rows": other_rows,
    "more splits": lambda a, o: {"split_ids": np.append(a.split_ids, 7).astype(np.int32)},
    "a negative number": lambda a, o: {"split_ids": -1 - a.split_ids},
    "an old number": lambda a, o: {"split_ids": a.split_ids + 5},
}


@pytest.mark.parametrize("lie", ASSIGNMENTS.values(), ids=ASSIGNMENTS)
def test_lies_about_assignments(lie):
    """Which rows went left must agree with the sums that won the split."""
    with pytest.raises(ProtocolError, match="'party 0'"):
        fit_with(Liar(Assignments, lie), tree_mode="layered", max_depth=2, active_depth=1)


def replayed(number):
    """Answer every request from some number on with an older answer."""
    old = []

    def change(request, answer):
        old.append(answer)
        return old[-2] if len(old) > number else answer

    return change


def renumbered(session=None, step=0):
    def change(request, answer):
        envelope = messages.read(answer)
        return messages.write(session or envelope.session, envelope.sequence + step, envelope.message)

    return change


def always(message):
    def change(request, answer):
        envelope = messages.read(answer)
        return messages.write(envelope.session, envelope.sequence, message)

    return change


@pytest.mark.parametrize(
    "change",
    [
        replayed(1),
        replayed(4),
        renumbered(step=1),
        renumbered(session=b"x" * 16),
        always(messages.Done()),
        always(messages.Finish()),
        always(ModelOpened(60)),
        lambda request, answer: request,
        lambda request, answer: answer[:-1],
        lambda request, answer: answer + b"\0",
        lambda request, answer: b"",
        lambda request, answer: b"HTTP/1.1 500 Internal Server Error",
    ],
)
def test_answers_that_break_the_protocol(change):
    with pytest.raises(ProtocolError, match="'party 0'"):
        fit_with(change)


def test_a_refusal_is_told_with_its_reason():
    with pytest.raises(PartyRefusedError, match=r"'party 0'.*order today"):
        fit_with(always(messages.Refusal("out of order today", 0)))
    with pytest.raises(ConsentError):
        fit_with(always(messages.Refusal("no consent", 1)))


def test_an_active_party_alone():
    X, y = problem(missing=0.1)
    compare(xgb_params({}), X, y, ())


def test_mirrored_columns_and_few_values():
    """Many equal gains within a column, and between a column and its mirror image."""
    rng = np.random.default_rng(2)
    X = rng.integers(0, 4, (300, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = np.nan
    y = (np.nansum(X[:, :2], axis=1) > 3).astype(np.float32)
    compare(xgb_params({}), np.concatenate([X, -X], axis=1), y, (3, 5))


def test_columns_without_a_value_and_of_one_value():
    X, y = problem(missing=0.1)
    X[:, 1] = np.nan
    X[:, 4] = np.nan
    X[:, 5] = 7.0
    compare(xgb_params({}), X, y, (3,))
    X[::2, 5] = np.nan
    compare(xgb_params({}), X, y, (3,))


def test_sparse_columns():
    """Entries that are not stored are missing, stored zeros are zeros."""
    X, y = problem()
    rng = np.random.default_rng(3)
    X[rng.random(X.shape) < 0.7] = 0
    sparse = scipy.sparse.csr_matrix(X)
    sparse.data[::9] = 0
    params = xgb_params({})
    parties = parties_of([sparse[:, 3:]])
    model = train(params, sparse[:, :3], y, parties)
    assert_same_trees(model.export_booster(parties), stock(params, sparse, y))
    dense = sparse.toarray()
    dense[(sparse != 0).toarray() == 0] = np.nan
    stored = scipy.sparse.coo_matrix(sparse)
    dense[stored.row, stored.col] = stored.data
    got = model.predict(sparse[:, :3], parties)
    np.testing.assert_array_equal(model.predict(dense[:, :3], [parties[0].with_rows(dense[:, 3:])]), got)


def test_more_bins_than_a_byte_holds():
    """257 codes a feature, missing values included."""
    X, y = problem("reg:squarederror", n=1500, n_features=3, missing=0.1)
    compare({"objective": "reg:squarederror", "max_depth": 5, "max_bin": 256}, X, y, (1,), rounds=3)
    assert bin_features(read_columns(X[:, 1:]), 256).codes.dtype == np.uint16

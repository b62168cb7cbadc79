"""What the caller does to arrays after a Dataset was constructed reaches no row."""

import numpy as np
import pytest
import scipy.sparse

import lgb_dp
from small_training import binary_data, train


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_side_door_codes_of_a_sparse_matrix_are_a_copy(index):
    X = scipy.sparse.csr_matrix(np.arange(12.0).reshape(4, 3) % 5)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    codes = lgb_dp.Dataset(X, [0, 1, 0, 1], bounds=(0, 5)).construct().codes
    for own in vars(codes).values():
        assert not any(np.shares_memory(own, theirs) for theirs in (X.indices, X.indptr, X.data))


@pytest.mark.parametrize("sparse", [False, True])
def test_side_door_what_places_a_row_is_not_the_callers(sparse):
    X, y = binary_data(60)
    X = scipy.sparse.csr_matrix(X) if sparse else X
    init_score, groups = np.zeros(60), np.arange(60) // 2
    data = lgb_dp.Dataset(
        X, y, bounds=(0, 1), init_score=init_score, public_init_score=True, groups=groups, rows_per_group=2
    ).construct()
    theirs = [init_score, groups, *([X.data, X.indices, X.indptr] if sparse else [X])]
    own = [*vars(data.codes).values(), data.start_scores, data.group_of_row]
    assert len(own) == (6 if sparse else 3)
    assert not any(np.shares_memory(mine, array) for mine in own for array in theirs)


@pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning")
def test_side_door_a_sparse_matrix_written_into_changes_no_model():
    y = (np.arange(400) % 3 > 0).astype(float)
    X = scipy.sparse.csr_matrix(np.column_stack([y + 1, np.arange(400) % 2 + 1.0]))
    X[0, 0] = 0.0  # stored explicitly
    text = []
    for write in (lambda: None, X.eliminate_zeros):
        data = lgb_dp.Dataset(X, y, bounds=(0, 3), max_bin=8).construct()
        write()
        text.append(train(data, lgb_dp.NewtonBoost(1.0, 1e-6, random_state=0), 5).model_to_string())
    assert text[0] == text[1]


@pytest.mark.parametrize("claims", [True, False])
def test_side_door_no_row_counts_twice_whatever_the_matrix_claims(claims):
    X = scipy.sparse.csr_matrix(
        (np.array([1.0, 1.0, 2.0, 1.0]), np.array([1, 1, 0, 1]), np.array([0, 2, 4])), shape=(2, 2)
    )
    X.has_canonical_format = X.has_sorted_indices = claims
    codes = lgb_dp.Dataset(X, [0, 1], bounds=(0, 4), max_bin=4).construct().codes
    assert codes.indptr.tolist() == [0, 1, 3]
    assert codes.indices.tolist() == [1, 0, 1]
    assert X.indices.tolist() == [1, 1, 0, 1], "the caller's matrix stays as it was"


@pytest.mark.parametrize("indices", [[0, 7], [-1, 0]])
def test_side_door_columns_out_of_range_are_refused(indices):
    X = scipy.sparse.csr_matrix(np.eye(2))
    X.indices[:] = indices
    with pytest.raises(ValueError, match="valid sparse matrix"):
        lgb_dp.Dataset(X, [0, 1], bounds=(0, 1)).construct()


# What a Dataset or a splitter keeps is read again by training, so that nobody may write into it.


def arrays_in(thing, seen=None):
    """Every array that can be reached from an object's attributes and properties."""
    seen = {} if seen is None else seen
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, (tuple, list)):
        for item in thing:
            yield from arrays_in(item, seen)
    elif (
        type(thing).__module__.startswith(("lgb_dp", "gbdt_kernels", "gbdt_commons"))
        and id(thing) not in seen
    ):
        seen[id(thing)] = thing
        properties = [name for name in dir(type(thing)) if isinstance(getattr(type(thing), name), property)]
        for value in [*vars(thing).values(), *(getattr(thing, name) for name in properties)]:
            yield from arrays_in(value, seen)


def kept_by(sparse):
    """Datasets and splitters in every way that one comes about, with everything that one can keep."""
    X, y = binary_data(60)
    data = lgb_dp.Dataset(
        scipy.sparse.csr_matrix(X) if sparse else X,
        y,
        bounds=(-3, 3),
        bin_edges={1: np.array([0.0, 1.0])},
        categories={2: np.arange(3)},
        weight=np.ones(60),
        weight_bound=1.0,
        init_score=np.zeros(60),
        public_init_score=True,
        groups=np.arange(60) // 3,
        rows_per_group=2,
        group_weight="mean",
    )
    yield data.construct()
    yield data.create_valid(X, y, weight=np.ones(60), init_score=np.zeros(60)).construct()
    folds = lgb_dp.folds(2, data)
    yield folds
    yield data.assigned_folds
    part = data.subset(next(folds.split())[0])
    yield part.construct()
    lgb_dp.folds(2, part)
    yield part


@pytest.mark.parametrize("sparse", [False, True])
def test_side_door_nothing_that_training_reads_again_can_be_written_into(sparse):
    n_arrays = []
    for kept in kept_by(sparse):
        found = list(arrays_in(kept))
        n_arrays.append(len(found))
        assert not [array for array in found if array.flags.writeable]
    assert min(n_arrays) >= 1
    assert max(n_arrays) >= 15


def test_side_door_folds_written_into_are_not_other_folds():
    X, y = binary_data(60)
    data = lgb_dp.Dataset(X, y, bounds=(-3, 3))
    folds = lgb_dp.folds(2, data)
    with pytest.raises(ValueError, match="read-only"):
        folds.fold_of_row[:] = y
    with pytest.raises(AttributeError):
        folds.fold_of_row = y.astype(np.int64)
    with pytest.raises(AttributeError):
        data.assigned_folds.fold_of_row = y.astype(np.int64)


def test_side_door_the_rows_of_a_fold_are_those_it_was_made_with():
    X, y = binary_data(60)
    data = lgb_dp.Dataset(X, y, bounds=(-3, 3))
    rows = next(lgb_dp.folds(2, data).split())[0]
    part = data.subset(rows)
    part.used_indices[:] = np.flatnonzero(y)[: len(rows)].tolist()
    np.testing.assert_array_equal(part.construct().label, y[rows])


def test_side_door_persons_written_into_are_not_other_persons():
    X, y = binary_data(60)
    data = lgb_dp.Dataset(
        X, y, bounds=(-3, 3), groups=np.arange(60) // 3, rows_per_group=3, group_weight="mean"
    ).construct()
    for persons in (data.groups, data.group_of_row):
        with pytest.raises(ValueError, match="read-only"):
            persons[:] = np.arange(60)

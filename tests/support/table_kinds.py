"""Matrices of numbers as tables, arrays and sparse matrices of every kind, and values that can be found."""

import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import scipy.sparse

COLUMNS = ("größe", 'w"t\\u00f6', "e\u0301 😀")
"""Names as far from ASCII as `veilboost` accepts them; `PLAIN` are those that LightGBM does, too."""

PLAIN = ("größe", "w\\u00f6", "e\u0301_😀")


def recognisable(n_rows, n_columns, seed=0):
    """Numbers of which float32 has all digits, each another one."""
    random = np.random.default_rng(seed)
    whole = random.permutation(6000)[: n_rows * n_columns] + 1000
    thousandths = random.integers(100, 1023, n_rows * n_columns) | 1
    return (whole + thousandths / 1024).reshape(n_rows, n_columns).astype(np.float32)


def traces(X):
    """What would show of the values in texts and in arrays of any format."""
    texts = {f"{value:.10f}"[:8].encode() for value in X.ravel().tolist()}
    doubles = {value.tobytes() for value in X.astype(np.float64).ravel()}
    # Two of float32 beside each other: four bytes alone would be found by chance.
    in_rows = {pair.tobytes() for pair in np.stack([X[:, :-1].ravel(), X[:, 1:].ravel()], axis=1)}
    in_columns = {pair.tobytes() for pair in np.stack([X[:-1].ravel(), X[1:].ravel()], axis=1)}
    return texts | doubles | in_rows | in_columns


def read_only(X, _):
    values = X.copy()
    values.flags.writeable = False
    return values


def strided(X, _):
    wide = np.zeros((2 * X.shape[0], 2 * X.shape[1]), dtype=X.dtype)
    wide[::2, ::2] = X
    return wide[::2, ::2]


def structured(X, names):
    rows = np.empty(len(X), dtype=[(name, np.float32) for name in names])
    for k, name in enumerate(names):
        rows[name] = X[:, k]
    return rows


def frozen(matrix):
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def unsorted(kind):
    """Entries of each row or column in descending order, and flags that say otherwise."""

    def made(X, _):
        matrix = kind(X)
        for start, end in zip(matrix.indptr, matrix.indptr[1:], strict=False):
            for array in (matrix.indices, matrix.data):
                array[start:end] = array[start:end][::-1].copy()
        matrix.has_sorted_indices = True
        return frozen(matrix)

    return made


def duplicated(kind):
    """Every entry in two halves, in matrices whose flags say otherwise."""

    def made(X, _):
        matrix = kind(X)
        twice = kind(
            (np.repeat(matrix.data / 2, 2), np.repeat(matrix.indices, 2), 2 * matrix.indptr), X.shape
        )
        twice.has_canonical_format = True
        return frozen(twice)

    return made


def arrow(X, names):
    return pa.table({name: X[:, k] for k, name in enumerate(names)})


def polars(X, names):
    return pl.DataFrame({name: X[:, k] for k, name in enumerate(names)})


def pandas(X, names):
    return pd.DataFrame(X, columns=list(names))


ACCEPTED = {
    "pandas": pandas,
    "pandas nullable": lambda X, names: pandas(X, names).convert_dtypes(),
    "pandas sparse": lambda X, names: pandas(X, names).astype(pd.SparseDtype("float64")),
    "pandas of Arrow": lambda X, names: pandas(X, names).convert_dtypes(dtype_backend="pyarrow"),
    "polars": polars,
    "Arrow table": arrow,
    "Arrow batch": lambda X, names: arrow(X, names).to_batches()[0],
    "Arrow chunks": lambda X, names: pa.concat_tables([arrow(X[:7], names), arrow(X[7:], names)]),
    "list": lambda X, _: X.tolist(),
    "objects": lambda X, _: X.astype(object),
    "double": lambda X, _: X.astype(np.float64),
    "big-endian": lambda X, _: X.astype(">f4"),
    "read-only": read_only,
    "Fortran": lambda X, _: np.asfortranarray(X),
    "strided": strided,
    **{f"sparse {name}": lambda X, _, to=f"to{name}": getattr(scipy.sparse.csr_matrix(X), to)() for name in
       ("csr", "csc", "coo", "lil", "dok", "bsr", "dia")},
    "sparse array": lambda X, _: scipy.sparse.csc_array(X),
    "sparse read-only": lambda X, _: frozen(scipy.sparse.csc_matrix(X)),
    "sparse unsorted csr": unsorted(scipy.sparse.csr_matrix),
    "sparse unsorted csc": unsorted(scipy.sparse.csc_matrix),
    "sparse duplicated csr": duplicated(scipy.sparse.csr_matrix),
    "sparse duplicated csc": duplicated(scipy.sparse.csc_matrix),
}  # fmt: skip
"""By kind, what makes one of a matrix and names; a model is the same as of the array."""

REFUSED = {
    "polars lazy": (lambda X, names: polars(X, names).lazy(), "LazyFrame"),
    "dask frame": (lambda X, names: dask.dataframe.from_pandas(pandas(X, names), npartitions=2), "DataFrame"),
    "dask array": (lambda X, _: dask.array.from_array(X), "Array"),
    "masked": (lambda X, _: np.ma.masked_array(X, mask=X > 5000), "masked array"),
    "masked rows": (lambda X, _: list(np.ma.masked_array(X, mask=X > 5000)), "masked array"),
    "structured": (structured, "structured array"),
    "records": (lambda X, names: structured(X, names).view(np.recarray), "structured array"),
    "complex": (lambda X, _: X + 1j, "Complex"),
    "times": (lambda X, _: (X * 1000).astype("M8[ms]"), "datetime64"),
    "texts": (lambda X, names: pandas(X, names).astype(str), "größe"),
    "values as names": (lambda X, _: pd.DataFrame(X, columns=X[0]), "name of column 0"),
    "bytes as names": (lambda X, _: pd.DataFrame(X, columns=[b"a", b"b", b"c"]), "name of column 0"),
    "long names": (lambda X, names: pandas(X, ["a" * 257, *names[1:]]), "name of column 0"),
    "line ends in names": (lambda X, names: pandas(X, ["a\nb", *names[1:]]), "name of column 0"),
    "names twice": (lambda X, names: pandas(X, [names[0], *names[:2]]), "duplicate column names"),
    "object with columns": (lambda X, names: Lookalike(X, names), "Lookalike"),
}
"""By kind, what makes one, and a word of the error that refuses it by name."""


class Lookalike:
    """A table of an unknown library, whose attributes hold the values where others have names."""

    def __init__(self, X, names):
        self.columns, self.dtypes, self.shape, self.index = list(X.T), names, X.shape, X[:, 0]

    def __array__(self, dtype=None, copy=None):
        return np.stack(self.columns, axis=1)


def snapshot(table):
    """All that a caller could see of a table change."""
    if scipy.sparse.issparse(table):
        arrays = {name: value for name, value in vars(table).items() if isinstance(value, np.ndarray)}
        return {name: (value.tobytes(), value.dtype) for name, value in arrays.items()}
    if isinstance(table, np.ndarray):
        return table.tobytes(), table.dtype, table.strides
    return repr(table)

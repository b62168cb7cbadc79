"""`lgb_dp.vertical.ColumnParty`: the party with columns alone."""

from __future__ import annotations

from typing import Any

from lgb_dp.data.arguments import checked_data
from lgb_dp.data.bins import feature_names, public_bins
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError

_DATA_ARGUMENTS = ("bounds", "max_bin", "spacing", "categories", "bin_edges", "feature_name")


class ColumnParty:
    """Columns of the rows whose labels another party has, in the same order.

    Parameters
    ----------
    X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
    name : str
        Under which the other party knows it.
    **data
        Public declarations, as of `lgb_dp.Dataset`: `bounds` (required unless all columns are categorical),
        `max_bin` (255), `spacing` ("mixed"), `categories`, `bin_edges` and `feature_name`.

    Attributes
    ----------
    bins : PublicBins
        Public.
    codes : DenseCodes or SparseCodes
        Of the rows: private, they do not leave the party.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.
    """

    def __init__(self, X: Any, *, name: str, **data: Any) -> None:
        unknown = sorted(set(data) - set(_DATA_ARGUMENTS))
        if unknown:
            raise ArgumentTypeError(
                f"ColumnParty has no argument {unknown[0]!r}; of data it takes {_DATA_ARGUMENTS}: labels and "
                "weights are the other party's"
            )
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"name must be a text of at least one character, got {name!r}")
        self.name = name
        declared = {"bounds": None, "max_bin": 255, "categories": None, "bin_edges": None, "spacing": "mixed"}
        given = checked_data(X)
        names = feature_names(given, data.pop("feature_name", None))
        self.bins = public_bins(given, names, **{**declared, **data})
        self.codes = self.bins.transform(given)
        leaks = self.bins.provenance.leaks
        if leaks:
            raise InvalidArgumentError(f"declarations of party {name!r} must be public: {leaks[0]}")

    def __repr__(self) -> str:
        """Name and number of features; no cell."""
        return f"ColumnParty(name={self.name!r}, n_features={len(self.bins.names)})"

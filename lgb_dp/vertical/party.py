"""`lgb_dp.vertical.ColumnParty`: the party with columns alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from lgb_dp.data.arguments import checked_data
from lgb_dp.data.bins import feature_names, public_bins
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError
from lgb_dp.vertical.prediction.answering import AskedRows, PartyAnswers
from lgb_dp.vertical.prediction.consent import Consent

_DATA_ARGUMENTS = ("bounds", "max_bin", "spacing", "categories", "bin_edges", "feature_name")


class ColumnParty:
    """Columns of the rows whose labels another party has, in the same order.

    Parameters
    ----------
    X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
    name : str
        Under which the other party knows it.
    consent : Consent, optional
        Limits of the questions that it answers about its rows (`predict`).
    **data
        Public declarations, as of `lgb_dp.Dataset`: `bounds` (required unless all columns are categorical),
        `max_bin` (255), `spacing` ("mixed"), `categories`, `bin_edges` and `feature_name`.

    Attributes
    ----------
    bins : PublicBins
        Public.
    codes : DenseCodes or SparseCodes
        Of the rows: private, they do not leave the party.
    answers : PartyAnswers
        Models that it has trained, and the questions that were answered about any of its rows.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.
    """

    def __init__(self, X: Any, *, name: str, consent: Consent | None = None, **data: Any) -> None:
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
        self.answers = PartyAnswers(consent)

    @cached_property
    def own_rows(self) -> AskedRows:
        """The rows of training, for questions about them."""
        return AskedRows.of(self.name, self.bins, self.codes, None, self.answers)

    def with_rows(self, X: Any, *, ids: Sequence[Any] | None = None) -> AskedRows:
        """Other rows of the party, for questions about them: with the same declarations, consent and counts.

        Parameters
        ----------
        X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
        ids : sequence of str, shape (n_rows,), optional
            Names of the rows, by which both parties have aligned them.  A row is counted by its id, in every
            selection and after a restart; without ids by its place in this selection alone, so that the rows
            of another selection count as others.

        Raises
        ------
        InvalidArgumentError
            If the columns differ, or there is not one id for each row.
        InvalidDataError
            If an id is not a canonical text, or is there twice.
        """
        codes = self.bins.transform(checked_data(X))
        return AskedRows.of(self.name, self.bins, codes, ids, self.answers)

    def __repr__(self) -> str:
        """Name and number of features; no cell."""
        return f"ColumnParty(name={self.name!r}, n_features={len(self.bins.names)})"

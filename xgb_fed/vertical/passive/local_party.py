"""A passive party in the active party's own process, for experiments."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from gbdt_commons.files import make_folder, write_atomically
from gbdt_parties.channel import ACTIVE
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import Columns, check_names, read_columns, read_columns_like
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.passive.explanations import NONE, check_level
from xgb_fed.vertical.passive.held_rows import HeldRows, held
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.protocol.row_names import RowNames
from xgb_fed.vertical.protocol.splits import Splits

Self = TypeVar("Self", bound="InProcessParty")


class InProcessParty:
    """A passive party that answers in this process, wherever its rows are; `LocalParty` has its consents.

    There are names of the rows and of each evaluation set, or None.
    """

    def __init__(
        self,
        name: str,
        rows: HeldRows,
        eval_sets: Sequence[HeldRows],
        row_names: list[RowNames | None],
        allow_export: bool,
        require_encryption: bool,
        allow_explanations: str,
    ) -> None:
        check_level(allow_explanations)
        if rows.n_features == 0:
            raise InvalidDataError(f"X of party {name!r} has no columns")
        for k, other in enumerate(eval_sets):
            check_same_number(rows, other, name)
            check_names(other.names, rows.names, f"eval_sets[{k}] of party {name!r}")
        self.name, self.row_names = name, row_names
        self._rows, self._evals = rows, list(eval_sets)
        self._allow_export, self._require_encryption = allow_export, require_encryption
        self.allow_explanations = allow_explanations
        self._splits_by_model: dict[bytes, Splits] = {}

    @cached_property
    def handler(self) -> PassiveParty:
        """Its sessions, which begin with the first request."""
        return PassiveParty(
            self._rows,
            self._evals,
            self._splits_by_model,
            allow_export=self._allow_export,
            allow_plain=not self._require_encryption,
            allow_weak_key=not self._require_encryption,
            allow_explanations=self.allow_explanations,
        )

    def _of_rows(self: Self, rows: HeldRows, names: RowNames | None) -> Self:
        """The same party with other rows, to predict these with the splits of models."""
        check_same_number(self._rows, rows, self.name)
        other = copy(self)
        other._rows, other._evals, other.row_names = rows, [], [names]
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Give data and splits, but no session."""
        return {name: value for name, value in self.__dict__.items() if name != "handler"}

    def __repr__(self) -> str:
        """Show name and shape."""
        shape = f"{self._rows.n_rows} rows, {self._rows.n_features} columns"
        return f"{type(self).__name__}({self.name!r}, {shape})"

    def handle(self, request: bytes) -> bytes:
        """Answer a request, a message of the wire protocol, with another one; a refusal is one, too."""
        return self.handler.handle(request)

    def save_model(self, directory: str | Path) -> None:
        """Write this party's splits of the models it helped to train, one file each.

        Parameters
        ----------
        directory : path
            Made, for its owner only, if it is missing.  No prediction is possible without these files.

        Raises
        ------
        OSError
            If a file cannot be written; those written before stay.
        """
        directory = make_folder(directory)
        for model, splits in self._splits_by_model.items():
            splits.save(directory / f"{model.hex()}.splits.json")
        write_atomically(directory / "party.txt", self.name + "\n")

    def load_model(self, directory: str | Path) -> None:
        """Read the splits that `save_model` wrote.

        Parameters
        ----------
        directory : path

        Raises
        ------
        CorruptDataError
            If a file does not hold splits, or is damaged.
        """
        for path in sorted(Path(directory).glob("*.splits.json")):
            self._splits_by_model[bytes.fromhex(path.name.split(".")[0])] = Splits.load(path)


class LocalParty(InProcessParty):
    """A passive party in this process, which exchanges the same bytes as a remote one does.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        The party's columns of the rows, in the active party's order.  The index of a data frame is compared
        with the active party's.
    name : str
        Unique among the parties.
    eval_sets : sequence of matrices
        The party's columns of each evaluation set.
    allow_export : bool
        Whether the party consents to give its splits to `export_booster`.
    require_encryption : bool
        Whether the party refuses keys below 2048 bits, and training without encryption.
    allow_explanations : {"none", "per-party", "per-feature"}, default="none"
        Whether the party consents to explanations and to predictions that hide paths, which tell the active
        party which way every row goes at every split of this party; and whether contributions and scores may
        then name its columns, by position, or only the party as a whole.
    enable_categorical : bool
        Whether columns of dtype category are categories, as for XGBoost.  Their number, and how many rows
        each has, become known, but not what they are.
    feature_types : sequence of str, optional
        XGBoost's types of the columns; "c" for one that holds codes of categories.
    """

    def __init__(
        self,
        X: Any,
        name: str = "passive",
        *,
        eval_sets: Any = (),
        allow_export: bool = False,
        require_encryption: bool = False,
        allow_explanations: str = NONE,
        enable_categorical: bool = False,
        feature_types: Sequence[str] | None = None,
    ) -> None:
        check_name(name)
        matrices = [X, *eval_sets]
        arguments = arguments_of(matrices, name)
        columns = read_columns(
            X, arguments[0], enable_categorical=enable_categorical, feature_types=feature_types
        )
        evals = [
            held(read_like(columns, matrix, argument, enable_categorical=enable_categorical))
            for matrix, argument in zip(eval_sets, arguments[1:], strict=True)
        ]
        self._enable_categorical = enable_categorical
        row_names = [RowNames.of(matrix) for matrix in matrices]
        super().__init__(
            name, held(columns), evals, row_names, allow_export, require_encryption, allow_explanations
        )

    def with_rows(self, X: Any) -> LocalParty:
        """The same party with its columns of other rows, to predict those with its splits of models.

        Parameters
        ----------
        X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
            The columns of training, in their order; the rows are in the active party's.

        Returns
        -------
        LocalParty
            With this one's consents and splits.

        Raises
        ------
        InvalidDataError
            If it has another number of columns, or a category that training did not declare.
        """
        argument = f"X of party {self.name!r}"
        columns = read_like(self._rows, X, argument, enable_categorical=self._enable_categorical)
        return self._of_rows(held(columns), RowNames.of(X))


def read_like(rows: Columns | HeldRows, X: Any, argument: str, *, enable_categorical: bool) -> Columns:
    """Columns of other rows, with the codes of the categories of a party's own."""
    if rows.categories:
        return read_columns_like(X, rows.names, rows.categories, argument)
    return read_columns(X, argument, enable_categorical=enable_categorical)


def check_name(name: Any) -> None:
    """Raise `InvalidArgumentError` unless something can be the name of a passive party."""
    if not isinstance(name, str) or not name or name == ACTIVE or not name.isprintable():
        raise InvalidArgumentError(f"name={name!r} must be a printable text other than {ACTIVE!r}")


def arguments_of(matrices: Sequence[Any], name: str) -> list[str]:
    """Names of a party's matrices in errors: its rows, and its evaluation sets."""
    evals = [f"eval_sets[{k}] of party {name!r}" for k in range(len(matrices) - 1)]
    return [f"X of party {name!r}", *evals]


def check_same_number(one: HeldRows, other: HeldRows, name: str) -> None:
    """Raise `InvalidDataError` unless two matrices of a party have as many columns."""
    if one.n_features != other.n_features:
        raise InvalidDataError(
            f"party {name!r} has {one.n_features} columns to train on and {other.n_features} in other rows"
        )

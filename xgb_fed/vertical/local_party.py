"""A passive party in the active party's own process, for experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gbdt_parties._files import make_folder, write_atomically
from gbdt_parties.channel import ACTIVE
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import Columns, read_columns
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.passive import PassiveParty
from xgb_fed.vertical.row_names import RowNames
from xgb_fed.vertical.splits import Splits


class LocalParty:
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
    """

    def __init__(
        self,
        X: Any,
        name: str = "passive",
        *,
        eval_sets: Any = (),
        allow_export: bool = False,
        require_encryption: bool = False,
    ) -> None:
        if not isinstance(name, str) or not name or name == ACTIVE or not name.isprintable():
            raise InvalidArgumentError(f"name={name!r} must be a printable text other than {ACTIVE!r}")
        columns = read_columns(X, f"X of party {name!r}")
        if columns.n_features == 0:
            raise InvalidDataError(f"X of party {name!r} has no columns")
        eval_sets = list(eval_sets)
        evals = [read_columns(e, f"eval_sets[{k}] of party {name!r}") for k, e in enumerate(eval_sets)]
        for k, other in enumerate(evals):
            _same_number(columns, other, name)
            other.check_names(columns.names, f"eval_sets[{k}] of party {name!r}")
        self.name = name
        self.row_names = [RowNames.of(rows) for rows in (X, *eval_sets)]
        self._columns, self._evals = columns, evals
        self._allow_export, self._require_encryption = allow_export, require_encryption
        self._splits_by_model: dict[bytes, Splits] = {}
        self._start()

    def _start(self) -> None:
        self._handler = PassiveParty(
            self._columns,
            self._evals,
            self._splits_by_model,
            allow_export=self._allow_export,
            allow_plain=not self._require_encryption,
            allow_weak_key=not self._require_encryption,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Give data and splits, but no session."""
        return {name: value for name, value in self.__dict__.items() if name != "_handler"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the party without a session."""
        self.__dict__.update(state)
        self._start()

    def __repr__(self) -> str:
        """Show name and shape."""
        return f"LocalParty({self.name!r}, {self._columns.n_rows} rows, {self._columns.n_features} columns)"

    def handle(self, request: bytes) -> bytes:
        """Answer a request."""
        return self._handler.handle(request)

    def with_rows(self, X: Any) -> LocalParty:
        """The same party with its columns of other rows, to predict those with its splits of models."""
        other = LocalParty(
            X,
            self.name,
            allow_export=self._allow_export,
            require_encryption=self._require_encryption,
        )
        _same_number(self._columns, other._columns, self.name)
        other._splits_by_model = self._splits_by_model
        other._start()
        return other

    def save_model(self, directory: str | Path) -> None:
        """Write this party's splits of the models it helped to train, one file each."""
        directory = make_folder(directory)
        for model, splits in self._splits_by_model.items():
            splits.save(directory / f"{model.hex()}.splits.json")
        write_atomically(directory / "party.txt", self.name + "\n")

    def load_model(self, directory: str | Path) -> None:
        """Read the splits that `save_model` wrote."""
        for path in sorted(Path(directory).glob("*.splits.json")):
            self._splits_by_model[bytes.fromhex(path.name.split(".")[0])] = Splits.load(path)


def _same_number(one: Columns, other: Columns, name: str) -> None:
    if one.n_features != other.n_features:
        raise InvalidDataError(
            f"party {name!r} has {one.n_features} columns to train on and {other.n_features} in other rows"
        )

"""Files of rows, by the kind of training: whether they can be read, and have the columns they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gbdt_commons.errors import VeilboostError
from gbdt_parties.errors import InvalidDataError, PartyArgumentError
from gbdt_parties.identity.certificates import TLS, Identity
from veilboost.doctor.findings import Finding
from veilboost.plans.declared import (
    Declared,
    DeclaredColumns,
    read_declared,
    read_declared_columns,
    rows_to_align,
)
from veilboost.plans.file_forms import PLAIN, FileForm, hint_at_separator
from veilboost.plans.private_columns import PrivateColumnsPlan, PrivateColumnsServed
from veilboost.plans.sections import Plan, Served
from veilboost.plans.tables import (
    LIBSVM,
    checked_ids,
    kind_of,
    label_columns,
    names_in,
    read_arrow,
    read_table,
)
from veilboost.serving.rows import read_rows


@dataclass(frozen=True)
class RowFile:
    """A file of rows, as a run or a server will read it.

    `named` are the columns that a plan or an option names, `id` that of ids, which must be different. `read`
    gives the numbers of rows and features; `progress` names the folders of earlier runs, and raises an error
    if they keep this one from working.
    """

    file: Path
    named: list[str]
    id: str | None
    read: Callable[[], tuple[int, int]]
    progress: Callable[[], str] | None = None
    form: FileForm = PLAIN


def findings_of(rows: RowFile) -> Iterator[Finding]:
    """Checks of a file, up to the first that fails: those after it would fail for the same reason."""
    try:
        kind = kind_of(rows.file, LIBSVM)
        names = names_in(rows.file, kind, rows.form)
    except (VeilboostError, OSError, ImportError) as error:
        yield Finding("file", str(rows.file), str(error))
        return
    yield Finding("file", f"{rows.file}, {rows.file.stat().st_size / 2**20:.1f} MiB")
    named = [one for name in rows.named for one in label_columns(name, names)]
    absent = [] if kind in LIBSVM else [repr(name) for name in named if name not in names]
    if absent:
        # Without a line of names, these would be values of the first row: they are not shown.
        hint = hint_at_separator(names, rows.form) if kind == ".csv" else ""
        mend = f"{rows.file} has no column {', '.join(absent)}: correct the file, or the name{hint}"
        yield Finding("columns", f"{len(names)} in the file", mend)
        return
    yield Finding("columns", f"{len(rows.named)} that are named are in the file")
    try:
        if rows.id is not None:
            ids = read_arrow(rows.file, kind, [rows.id], [rows.id], rows.form).column(rows.id).to_pylist()
            yield Finding("ids", f"{len(checked_ids(ids, rows.file))}, all different")
    except (VeilboostError, OSError) as error:
        yield Finding("ids", f"column {rows.id!r}", str(error))
        return
    try:
        n_rows, n_features = rows.read()
    except (VeilboostError, OSError, ImportError) as error:
        yield Finding("values", str(rows.file), str(error))
        return
    yield Finding("values", f"{n_rows} rows, {n_features} columns to use")
    if rows.progress is not None:
        try:
            yield Finding("progress", rows.progress())
        except (VeilboostError, OSError) as error:
            yield Finding("progress", "of this run, and the ledger of all runs", str(error))


def of_plan(plan: Plan[Any, Any]) -> list[RowFile]:
    """Files of the plan of a run's initiator; none if it has no rows."""
    data = plan.data
    files = [plan.path(one) for one in (data.file, getattr(data, "valid", None)) if one is not None]
    if plan.method == "private":
        demands: dict[str, Any] = {
            "budget": data.epsilon_and_delta,
            "min_parties": data.min_parties,
            "colluding": data.colluding,
        }
        demands |= {"allowed": data.allowed}
        declared = read_declared(plan.path(data.declared))
        return [
            _declared(declared, file, demands, parameters=plan.parameters, form=plan.form) for file in files
        ]
    if plan.method == "private-columns":
        return [_labelled_columns(read_declared(plan.path(data.declared)), file, plan) for file in files]
    how: dict[str, Any] = {"id_column": data.id, "label": data.label, "drop": data.drop, "form": plan.form}
    if plan.method == "vertical":
        how |= {"one_hot": data.one_hot, "categorical": data.categorical}
    # Classes are numbered by the parties themselves where rows are apart.
    asked = plan.parameters if plan.method == "vertical" else {}
    return [_table(file, how, partial(read_table, file, **how), asked) for file in files]


def of_served(method: str, served: Any) -> list[RowFile]:
    """Files of a served party."""
    if method == "private":
        if served.spark is not None:
            return []
        names = ("budget", "min_parties", "colluding", "parties_per_person")
        demands = {name: getattr(served, name) for name in names} | {"allowed": served.party}
        declared = read_declared(served.declared)
        return [_declared(declared, Path(served.data), demands, Path(served.models), form=served)]
    if method == "private-columns":
        return [_columns_alone(read_declared_columns(served.declared), served)]
    how: dict[str, Any] = {"id_column": served.id}
    if method == "vertical":
        how |= {"one_hot": served.one_hot, "categorical": served.categorical}
    else:
        how |= {"label": served.label}
    more: dict[str, Any] = {"keep": served.columns, "drop": served.drop}
    more["form"] = served
    files = [_table(Path(served.data), how | more, partial(read_rows, served, **how))]
    valid = getattr(served, "valid", None)
    if valid is not None:
        files.append(_table(Path(valid), how | more, partial(read_table, valid, **how, **more)))
    return files


def folders_of_plan(plan: Plan[Any, Any]) -> list[Path]:
    """Folders that a run writes to."""
    written = [one for one in plan.paths if one.writes]
    return [one.path if one.writes == "folder" else one.path.parent for one in written]


def folders_of_served(served: Served) -> list[Path]:
    """Folders that a server writes to."""
    return [Path(served.models)]


def _table(
    file: Path, how: dict[str, Any], read: Callable[[], Any], parameters: Mapping[str, Any] | None = None
) -> RowFile:
    def sizes() -> tuple[int, int]:
        # Here, so that the doctor of other training runs does not wait for XGBoost.
        from xgb_fed.boosting.params import Settings

        table = read()
        if table.label is not None and table.label.ndim == 1:
            label = f"{file}: column {how['label']!r} of labels"
            Settings.from_params(parameters or {}).loss.check_labels(table.label.astype(np.float32), label)
        return table.columns.n_rows, table.columns.n_features

    single = [how.get("id_column"), how.get("label")]
    several = [name for key in ("keep", "drop", "one_hot", "categorical") for name in how.get(key) or ()]
    named = [name for name in (*single, *several) if name is not None]
    return RowFile(file, named, how.get("id_column"), sizes, form=how["form"])


def _declared(
    declared: Declared,
    file: Path,
    demands: Mapping[str, Any],
    with_ledger: Path | None = None,
    parameters: Mapping[str, Any] | None = None,
    form: FileForm = PLAIN,
) -> RowFile:
    """Rows of a party of private training, which has to accept them, and its own demands.

    Labels are those that the `parameters` of a plan train.

    The budget is that of the ledger in the folder `with_ledger`, if there is one.
    """

    def sizes() -> tuple[int, int]:
        # Here, so that the doctor of other training runs does not wait for LightGBM.
        from lgb_dp.federated import Party

        rows = declared.table_of(file, form=form)
        if parameters is not None:
            declared.check_classes(rows, file, parameters)
        Party(rows.features, rows.label, name="party", **demands, **declared.arguments(), **rows.own).close()
        _check_ledger(with_ledger, demands["budget"])
        return rows.features.num_rows, len(declared.columns)

    return RowFile(file, [*declared.columns, *declared.others], None, sizes, form=form)


def _check_ledger(folder: Path | None, budget: Sequence[float] | None) -> None:
    """Refuse a budget other than that of a folder's ledger, and none where no ledger has one."""
    if folder is None:
        return
    from lgb_dp.federated.ledger import LEDGER_FILE, read_ledger

    kept = None
    if (folder / LEDGER_FILE).exists():
        # Nothing may be in it yet.
        with suppress(PartyArgumentError):
            sums = read_ledger(folder)
            kept = sums.epsilon, sums.delta
    if budget is None and kept is None:
        raise InvalidDataError(f"budget is missing: no ledger in {folder} has one")
    if budget is not None and kept not in (None, tuple(budget)):
        raise InvalidDataError(f"budget={tuple(budget)} is not that of the ledger in {folder}, {kept}")


def _labelled_columns(declared: Declared, file: Path, plan: PrivateColumnsPlan) -> RowFile:
    """Rows of the party with the labels in private training with columns apart, and the plan's settings."""
    data, settings = plan.data, plan.training

    def check(**kept: Any) -> int:
        """Refuse what training would refuse of the rows, and of what is kept; gives the number of rows."""
        from lgb_dp import Dataset, NewtonBoost
        from lgb_dp.vertical.train import check as check_run

        rows = rows_to_align(declared, file, data.id, plan.form)
        declared.check_classes(rows, file, plan.parameters)
        check_run(
            plan.parameters,
            Dataset(rows.features, rows.label, label_overflow="clip", **declared.arguments()),
            settings.rounds,
            callbacks=[NewtonBoost(settings.epsilon, settings.delta)],
            trees_per_round=settings.trees_per_round,
            ids=None if data.id is None else rows.ids,
            **kept,
        )
        return int(rows.features.num_rows)

    def progress() -> str:
        checkpoint, folder = plan.path(settings.checkpoint), plan.path(data.state)
        name = Identity.of(TLS.from_directory(plan.path(plan.tls)).certificate).name
        check(name=name, checkpoint=checkpoint, folder=folder, budget=data.epsilon_and_delta)
        return f"{checkpoint} and the ledger in {folder} admit the run"

    def sizes() -> tuple[int, int]:
        return check(), len(declared.columns)

    return RowFile(file, _named(declared, data.id), data.id, sizes, progress, plan.form)


def _columns_alone(declared: DeclaredColumns, served: PrivateColumnsServed) -> RowFile:
    """Rows of the party with columns alone, which has to accept them, and its own demands."""
    file = Path(served.data)

    def sizes() -> tuple[int, int]:
        from lgb_dp.vertical import ColumnParty

        rows = rows_to_align(declared, file, served.id, served)
        demands: dict[str, Any] = {"budget": served.epsilon_and_delta, "allowed": served.party}
        party = ColumnParty(rows.features, name="party", **demands, **declared.arguments())
        party.close()
        if not (party.bins.n_bins > 1).any():
            raise InvalidDataError("no declared column has two bins, so that there is nothing to split")
        _check_ledger(Path(served.models), served.epsilon_and_delta)
        return rows.features.num_rows, len(declared.columns)

    return RowFile(file, _named(declared, served.id), served.id, sizes, form=served)


def _named(declared: DeclaredColumns, id_column: str | None) -> list[str]:
    return [*declared.columns, *declared.others, *([] if id_column is None else [id_column])]

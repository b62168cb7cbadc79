"""The sections that plans of several kinds of training share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from veilboost.plans.entries import beside, entry
from veilboost.plans.file_forms import FileForm
from veilboost.plans.paths import UsedPath, paths_of

DataT = TypeVar("DataT")
TrainingT = TypeVar("TrainingT", bound="TrainingSection")


@dataclass(frozen=True, kw_only=True)
class PartyAddress:
    """A party that a run's initiator connects to."""

    name: str = entry("name in the model, in messages and in the record; the certificate must be for it")
    address: str = entry("`host:port`")
    server_name: str | None = entry("name that the certificate is for, if it is another one", None)


@dataclass(frozen=True, kw_only=True)
class TrainingSection:
    """Settings of a training run by any method."""

    rounds: int = entry("boosting rounds", 100, least=1)
    early_stopping_rounds: int | None = entry(
        "stop when the last metric of `valid` (with `exact`, of all parties' held-out rows) has not improved "
        "for this many rounds; not with `private`",
        None,
    )
    timeout: float = entry("seconds of silence after which a party is unavailable", 30.0, above=0, most=1e7)
    patience: float = entry(
        "seconds to wait for an unavailable party, in all within one tree, with `simfl` within one round, "
        "with `exact` within one question",
        600.0,
        least=0,
        most=1e7,
    )
    checkpoint: str = entry("folder of the progress", "checkpoint", writes="folder")
    model: str = entry("folder of the model", "model", writes="folder")
    record: str = entry("file of the record", "record.jsonl", writes="record")


@dataclass(frozen=True)
class Plan(Generic[DataT, TrainingT]):
    """A whole plan of a run's initiator; its paths are relative to its folder."""

    method: str
    folder: Path
    tls: str
    parties: list[PartyAddress]
    parameters: dict[str, Any]
    data: DataT
    training: TrainingT

    def path(self, name: str) -> Path:
        """Resolve a path of the plan."""
        return self.folder / name

    @property
    def form(self) -> FileForm:
        """The form of the initiator's files."""
        own = FileForm(**{f.name: getattr(self.data, f.name) for f in fields(FileForm)})
        return cast("FileForm", beside(own, self.folder))

    @property
    def paths(self) -> list[UsedPath]:
        """Files and folders that a run reads and writes."""
        data = paths_of(self.data, self.folder, "data.{}".format)
        training = paths_of(self.training, self.folder, "training.{}".format)
        return [UsedPath("tls", self.path(self.tls)), *data, *training]


@dataclass(frozen=True, kw_only=True)
class KnownParties:
    """The certificates of a plan's parties, where none has to sign."""

    allowed: list[str] = entry(
        "certificates of the parties, `sha256:…`; without them, the authority decides who has a party's name",
        [],
    )


@dataclass(frozen=True, kw_only=True)
class OwnRows(FileForm):
    """The file of an initiator who has rows of its own; without it, it only passes messages on."""

    file: str | None = entry("CSV, Parquet or LIBSVM file of rows that take part", None, is_path=True)
    id: str | None = entry("column of ids, which is no feature; predictions are written beside it", None)
    state: str = entry(
        "folder of what must not be forgotten of these rows' answers", "party", writes="folder"
    )


@dataclass(frozen=True, kw_only=True)
class KeptMessages:
    """Whether a party's side of a run can be repeated."""

    auditable: bool = entry(
        "whether this party's folder keeps messages and seeds of runs, for an auditor who repeats its side "
        "(`veilboost replay`); they take as much room as the traffic, and need the same secrecy as the rows",
        False,
        option="keep messages, and secrets, for veilboost replay",
    )


@dataclass(frozen=True, kw_only=True)
class HorizontalTerms:
    """Limits of horizontal training without noise, as a party sets them for its rows."""

    max_rows: int = entry("rows of all parties together", 10_000_000, least=1)
    max_rounds: int = entry(
        "rounds in all training runs together; those of a run are counted before its first answer",
        10_000,
        least=0,
    )
    accept_rows: str | None = entry(
        "name of a state of the rows, from the error that refuses it because few of them have changed since "
        "sums were told: these rows are accepted, and no others",
        None,
        option="changed rows to accept; a refusal names them",
        metavar="NAME",
    )


@dataclass(frozen=True, kw_only=True)
class InitiatorRows(HorizontalTerms, OwnRows):
    """Rows of an initiator that takes part in training without noise."""

    label: str | None = entry(
        "column of labels, `lower,upper` of times; needed with `file` and `valid`", None
    )
    drop: list[str] = entry("columns not to use", [])
    labels: str = entry(
        '`"classes"` or `"numbers"`; decides between `binary:logistic` (`multi:softprob` where a party has '
        "more than two classes) and `reg:squarederror`",
        "classes",
        choices=("classes", "numbers"),
    )


@dataclass(frozen=True, kw_only=True)
class Served(FileForm):
    """Settings of a party that answers, whatever the kind of training."""

    data: str = entry("CSV, Parquet or LIBSVM file", is_path=True, metavar="FILE")
    tls: str = entry("folder with ca.pem, party.pem and party.key", is_path=True, metavar="FOLDER")
    allow: list[str] = entry(
        "callers, by name or `sha256:FINGERPRINT`",
        option="caller, by name or sha256:FINGERPRINT; repeatable",
        metavar="NAME",
        is_repeated=True,
    )
    listen: str = entry("address to listen at", "127.0.0.1:7001", metavar="HOST:PORT")
    models: str = entry(
        "folder of models, training runs, aligned rows and record",
        "models",
        option="folder of models, runs and record",
        is_path=True,
        writes="folder",
        metavar="FOLDER",
    )
    sessions_per_hour: int = entry(
        "training runs and predictions of one caller; in horizontal training, a party that is restarted and "
        "a connection that breaks take one of every party",
        240,
        least=1,
    )
    max_models: int = entry("models kept for one caller", 1000, least=0)
    max_memory: float = entry(
        "GiB of rows, blinded ids (512 bytes each), gradients, statistics and trees held for one caller",
        8.0,
        least=0.001,
        most=1e6,
        metavar="GIB",
    )


@dataclass(frozen=True, kw_only=True)
class AlignedRows:
    """Limits of a served party whose rows are found by their ids."""

    questions_per_hour: int = entry(
        "alignments, predictions and resumptions of one caller; sessions on rows that are not aligned count, "
        "too",
        120,
        least=0,
    )


@dataclass(frozen=True, kw_only=True)
class ServedTable(AlignedRows, Served):
    """Settings of a party whose columns are those of its file."""

    columns: list[str] | None = entry("the only columns to use", None, metavar="A,B,C")
    drop: list[str] = entry("columns not to use", [], metavar="A,B,C")
    max_features: int | None = entry("columns to use, above which the server does not start", None, least=1)
    max_bin: int = entry("bins of a column", 256, least=2)
    max_depth: int = entry("depth of a tree", 10, least=1)


@dataclass(frozen=True, kw_only=True)
class ServedLabels(ServedTable, HorizontalTerms):
    """Settings of a party with rows and labels, in training without noise."""

    label: str = entry("column of labels; two of times are LOWER,UPPER", metavar="COLUMN")
    id: str | None = entry(
        "column of ids, which is no feature; an id that is missing or occurs twice is refused",
        None,
        option="column of ids, which is no feature",
        metavar="COLUMN",
    )
    categorical_labels: bool = entry(
        "whether labels are classes, whose distinct values others then learn; else there is only regression",
        False,
        option="labels are classes, whose values others learn",
    )


@dataclass(frozen=True, kw_only=True)
class SummedRows:
    """The others whose sums a served party's rows may be part of."""

    party: list[str] = entry(
        "certificates of the other organisations that take part, `sha256:…`; a roster with another one is "
        "not signed",
        option="certificate of another organisation; repeatable",
        metavar="sha256:…",
        is_repeated=True,
    )
    min_parties: int = entry("parties that must take part in a sum", 2, least=2)


@dataclass(frozen=True, kw_only=True)
class OwnBudget:
    """The cost that an initiator's rows may have in private training."""

    budget_epsilon: float | None = entry(
        "ε of all that these rows answer in all runs; that of the first run by default", None
    )
    budget_delta: float | None = entry("its δ", None)

    @property
    def epsilon_and_delta(self) -> tuple[float, float] | None:
        """The budget, if it is given."""
        if self.budget_epsilon is None or self.budget_delta is None:
            return None
        return self.budget_epsilon, self.budget_delta


def faults_of_kept_messages(data: Any) -> Iterator[str]:
    """Messages of rows that take no part."""
    if data.auditable and data.file is None:
        yield "data.auditable needs data.file; the parties' servers have their own (--auditable)"


def faults_of_own_budget(data: OwnBudget) -> Iterator[str]:
    """Half a budget."""
    if (data.budget_epsilon is None) != (data.budget_delta is None):
        yield "data.budget_epsilon and data.budget_delta go together"


@dataclass(frozen=True, kw_only=True)
class BudgetedRows:
    """The cost that a served party's rows may have in private training."""

    budget: list[float] | None = entry(
        "ε and δ of all that these rows answer, in all runs together; fixed when the ledger is made, and "
        "needed until then: otherwise the first coordinator would choose it",
        None,
        option="of all answers; needed unless the ledger has one",
        metavar=("EPSILON", "DELTA"),
    )

    @property
    def epsilon_and_delta(self) -> tuple[float, float] | None:
        """The budget, if it is given."""
        return None if self.budget is None else (self.budget[0], self.budget[1])


def faults_of_budget(served: BudgetedRows, called: Callable[[str], str]) -> Iterator[str]:
    """A budget of other than two numbers."""
    if served.budget is not None and len(served.budget) != 2:
        yield f"{called('budget')} must be two numbers, epsilon and delta"


def faults_of_private(training: TrainingSection) -> Iterator[str]:
    """Settings that private training does not have."""
    if training.early_stopping_rounds is not None:
        yield (
            "training.early_stopping_rounds is not for private training, whose model is written at the end"
        )

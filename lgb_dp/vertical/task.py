"""Task of a run with columns apart: all that both parties agree on before anything of the rows leaves."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted, shown
from gbdt_hosts.lightgbm import resolve_aliases
from gbdt_parties.agreed import AgreedSettings, Whole
from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.messages import MAX_REASON, Flag, Message, View
from gbdt_parties.run.flights.terms import MAX_ROUNDS, attempts_at
from gbdt_parties.secure_sum.messages import OpenRun
from gbdt_parties.transport.remote import MAX_ANSWER_BYTES
from gbdt_parties.two_party.layout import MAX_ROWS, MAX_TREES
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.accounting.shares import CLOSENESS_SHARE
from lgb_dp.boosting.params import refuse_early_stopping, training_parameters
from lgb_dp.checks import checked_integer
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.newton.arithmetic import check_digests, check_versions, digests, versions
from lgb_dp.newton.model_memory import model_bytes
from lgb_dp.newton.trainer import NewtonBoost

AUTOMATIC_LEVELS, MAX_LEVELS = 4, 6
"""Levels of automatic trees, at most, which decide what a row costs on the wire; and levels of any tree."""

SETTINGS = ("epsilon", "delta", "depth", "gradient_clip")
"""Settings of `NewtonBoost` that a run has."""

MAX_NAME = 256
MAX_THREADS = 256
MAX_CLASSES = 64
"""Each has scores of its own at both parties, and its own part of the budget."""
MAX_PLANNED = 100_000
"""Trees of all attempts: each party plans for them all before the first one."""

_STATEMENT = b"veilboost columns apart 1"


class OpenColumns(OpenRun, kind=214):
    """Active party to the other: takes up a run with columns apart, new or known."""


class Flights(Message, kind=215):
    """Either direction: messages of the exchange, masked or noised, each after its length."""

    content: View
    """Of one or several messages."""
    more: Flag
    """1 if the next request belongs to this one, which has no answer of its own then; 0 otherwise."""


@dataclass(frozen=True)
class ColumnTask(AgreedSettings):
    """The public settings of a run, and the declarations of the active party, whose name it has.

    `settings` are `NewtonBoost`'s, of `SETTINGS`. There are `n_trees` of each class, where there are several,
    and `per_round` trees share gradients; either party has `n_rows`. `columns` are the active party's bins
    (`columns.declaration`), `paid_for` reports of what they have cost. `arithmetic` and `versions` are those
    of the active party (`lgb_dp.newton.arithmetic`), by default of this process.
    """

    name: str
    params: Mapping[str, Any]
    settings: Mapping[str, Any]
    n_trees: Annotated[int, Whole(1, MAX_PLANNED)]
    per_round: Annotated[int, Whole(1, MAX_TREES)]
    n_rows: Annotated[int, Whole(1, MAX_ROWS)]
    label_bounds: tuple[float, float] | None
    columns: Mapping[str, Any] = field(repr=False)
    notes: tuple[str, ...] = ()
    paid_for: tuple[Mapping[str, Any], ...] = ()
    arithmetic: Mapping[str, str] = field(default_factory=digests, repr=False)
    versions: Mapping[str, str] = field(default_factory=versions, repr=False)

    error: ClassVar[type[VeilboostError]] = InvalidArgumentError
    argument_names = {"n_trees": "num_boost_round", "per_round": "trees_per_round"}  # noqa: RUF012

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= MAX_NAME:
            raise InvalidArgumentError(f"name of a party must be a text of 1 to {MAX_NAME} characters")
        # Before LightGBM sees them: some of its parameters open files or connections.
        known = training_parameters(self.params, None)
        checked_integer("num_class", self.n_classes, 1, MAX_CLASSES)
        checked_integer("trees_per_round", self.per_round, 1, self.n_trees)
        if self.n_rounds > MAX_ROUNDS:
            raise InvalidArgumentError(
                f"num_boost_round={self.n_trees} makes {self.n_rounds} rounds of {self.per_round} trees; "
                f"there may be {MAX_ROUNDS}"
            )
        if self.n_planned > MAX_PLANNED:
            raise InvalidArgumentError(
                f"num_boost_round={self.n_trees} is too many: it plans noise for {self.n_planned} trees; "
                f"at most {MAX_PLANNED} are accepted"
            )
        if sorted(self.settings) != sorted(SETTINGS):
            raise InvalidArgumentError(f"settings={shown(sorted(self.settings))} of a run must be {SETTINGS}")
        # Raises what is malformed.
        self.provenance  # noqa: B018
        if "num_iterations" in resolve_aliases(self.params):
            raise InvalidArgumentError("params of a run must not hold num_iterations; its trees are n_trees")
        refuse_early_stopping(self.params, "with columns apart")
        if known.n_threads > MAX_THREADS:
            raise InvalidArgumentError(f"num_threads={known.n_threads} must be at most {MAX_THREADS}")
        if self.trainer_settings()["epsilon"] == float("inf"):
            raise InvalidArgumentError("epsilon must be finite with columns apart, got inf")

    def check_here(self, whose: str) -> None:
        """Refuse a run in which this process would not arrive at the model of the active party, to the byte.

        InvalidArgumentError names the functions or versions that differ, and `whose` they are.
        """
        check_versions(self.versions, whose)
        check_digests(self.arithmetic, whose)

    @property
    def n_classes(self) -> int:
        """Classes that are each told from the others, in turns; 1 for two classes, and for numbers."""
        return training_parameters(self.params, None).n_outputs

    @property
    def rounds_of_class(self) -> int:
        """Rounds of the trees of one class."""
        return -(-self.n_trees // self.per_round)

    @property
    def n_rounds(self) -> int:
        """Rounds of all trees."""
        return self.n_classes * self.rounds_of_class

    @property
    def planned_of_class(self) -> int:
        """Trees of attempts at the rounds of one class; all classes have no fewer than `Terms` allows."""
        return attempts_at(self.rounds_of_class) * self.per_round

    @property
    def n_planned(self) -> int:
        """Trees of all attempts at rounds."""
        return self.n_classes * self.planned_of_class

    @property
    def levels(self) -> int:
        """Levels of a tree, at most."""
        known, depth = training_parameters(self.params, None), self.settings["depth"]
        asked = known.depth if "max_depth" in known.given else AUTOMATIC_LEVELS
        return asked if depth == "auto" else int(depth)

    def needed_bytes(self, n_features: int) -> int:
        """Memory that a run takes at a party of so many columns, at most, for a round and for the model."""
        of_tree = 40 * self.levels + 12 * ((1 << self.levels) - 1)
        of_row = 640 + n_features + 128 * self.n_classes + self.per_round * of_tree
        return of_row * self.n_rows + model_bytes(self.levels, self.n_classes * self.n_trees, 1)

    def check_size(self, n_features: int, max_bytes: float, is_remote: bool) -> None:
        """Refuse a run, before anything is charged, that takes more memory at this party than there is.

        Likewise one whose longest answer, from a party in another process, is too long for a message.
        """
        answer = -(-self.per_round // 2) * 8 * ((1 << self.levels) - 1) * self.n_rows * is_remote
        for what, n_bytes, limit in (
            ("of memory", self.needed_bytes(n_features), max_bytes),
            ("in one answer", answer, MAX_ANSWER_BYTES),
        ):
            if n_bytes > limit:
                raise InvalidArgumentError(
                    f"trees_per_round={self.per_round}: {2**self.levels} leaves each on {self.n_rows} rows "
                    f"take up to {n_bytes / 2**30:.2f} GiB {what}, and at most {limit / 2**30:.2f} GiB are "
                    "accepted: give a smaller trees_per_round or max_depth"
                )

    @property
    def n_threads(self) -> int:
        """Threads of either party."""
        return int(training_parameters(self.params, None).n_threads)

    def trainer_settings(self) -> dict[str, Any]:
        """Checked settings of either party's trainer.

        ε and δ are less by what is set aside for noise in integers; noise is planned for all attempts, for
        those abandoned stay charged.  `rounds` are those of one class.
        """
        less = {name: self.settings[name] * (1 - CLOSENESS_SHARE) for name in ("epsilon", "delta")}
        checked = NewtonBoost(**{**self.settings, **less}, rounds=self.planned_of_class).with_settings()
        return {name: getattr(checked, name) for name in (*SETTINGS, "rounds")}

    @property
    def budget(self) -> tuple[float, float]:
        """ε and δ that are asked for."""
        return float(self.settings["epsilon"]), float(self.settings["delta"])

    @property
    def granted(self) -> float:
        """μ of all that either party may release in the run."""
        return gaussian_mu(*(value * (1 - CLOSENESS_SHARE) for value in self.budget))

    @property
    def provenance(self) -> Provenance:
        """Cost of the active party's declarations."""
        return Provenance((), tuple(self.notes), tuple(map(PrivacyReport.from_dict, self.paid_for)))

    @classmethod
    def _arguments(cls, values: dict[str, Any]) -> dict[str, Any]:
        bounds = values["label_bounds"]
        if bounds is not None:
            low, high = bounds
            bounds = float(low), float(high)
        notes = tuple(quoted(str(one), MAX_REASON) for one in values["notes"])
        read = {"label_bounds": bounds, "notes": notes, "paid_for": tuple(values["paid_for"])}
        # Named, so that settings without them are refused and not given those of this process.
        return {**values, **read, "arithmetic": values["arithmetic"], "versions": values["versions"]}


def statement(request: str, description: str) -> bytes:
    """32 bytes that stand for the task and the other party's declarations, in a roster."""
    return hashlib.sha256(length_prefixed([_STATEMENT, request.encode(), description.encode()])).digest()

"""The coordinator of horizontal training: parties with different rows take turns in growing trees.

SimFL and TFL share it.  The coordinator passes messages from party to party and sees their content; it may
run on the machine of one of the parties.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from gbdt_hosts.xgboost.evaluation import EvaluationSet
from gbdt_hosts.xgboost.targets import Targets
from gbdt_parties import messages
from gbdt_parties.channel import Channel, Party
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.patience import Fanout, Reconnector
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.features import check_weight, numeric_vector
from xgb_fed.boosting.labels import places_among
from xgb_fed.boosting.loop import LoopOptions, boost, check_patience
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import CheckpointError, InvalidArgumentError
from xgb_fed.horizontal.common.introductions import (
    check_introduction,
    common_classes,
    common_columns,
    common_mean_label,
)
from xgb_fed.horizontal.common.messages import HorizontalOpened, Introduce, OpenHorizontal, RowShape, Trees
from xgb_fed.horizontal.common.model import HorizontalModel, SharedTrees, add_round, read_rows
from xgb_fed.horizontal.common.rows import COORDINATOR
from xgb_fed.horizontal.simfl import messages as wire
from xgb_fed.horizontal.simfl.boosting_state import Turns
from xgb_fed.horizontal.simfl.checkpoint import KeptProgress, SimFLProgress

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")
M = TypeVar("M", bound=messages.Message)


@dataclass
class _EvaluationRows:
    """Rows of the coordinator that metrics are computed on."""

    X: Any
    y: NDArray[np.float32]
    margin: NDArray[np.float32]


class TurnTaking:
    """Training in turns: party ⌊r / s⌋ mod M grows the trees of round r and gives them to the others.

    On its own this class is TFL (Zhao et al., 2018, without their noise), in which builders know their own
    gradients only. s is `rounds_per_turn`. `num_class` of the `settings` is set from the parties' labels;
    with `is_auto`, the objective may follow from them, too. `evals` are evaluation sets of the coordinator,
    (X, y) or (X, y, weight), with their names. Progress is kept in the `checkpoint` and taken up from there;
    `progress` is that of a run that has not begun, to be brought up to date. `patience` is that of
    `Reconnector`, in seconds.
    """

    def __init__(
        self,
        settings: Settings,
        parties: list[Party],
        evals: Sequence[tuple[tuple[Any, ...], str]],
        rounds_per_turn: int = 1,
        *,
        max_rounds: int,
        checkpoint: KeptProgress | None = None,
        patience: float = 0.0,
        progress: SimFLProgress | None = None,
        is_auto: bool = False,
    ) -> None:
        if not (isinstance(rounds_per_turn, (int, np.integer)) and rounds_per_turn >= 1):
            raise InvalidArgumentError(
                f"rounds_per_turn={rounds_per_turn!r} must be an integer of at least 1"
            )
        check_patience(patience)
        self._turns = Turns(len(parties), int(rounds_per_turn), int(max_rounds))
        self._parties, self._checkpoint = parties, checkpoint
        self._classify = settings.objective != "reg:squarederror"
        self.progress = SimFLProgress() if progress is None else progress
        self._session = self._opened = b""
        self._pool = ThreadPoolExecutor(len(parties), thread_name_prefix="xgb_fed")
        self._for_each = Fanout(self._pool, parties)
        introductions = Reconnector(patience, lambda: None, self.traffic)(self._introduced)
        self._names = [party.name for party in parties]
        self.n_features, self.names = common_columns(self._names, introductions)
        self.party_rows = [answer.n_rows for answer in introductions]
        self.classes = None
        if self._classify:
            self.classes, objective = common_classes(
                self._names, introductions, settings.objective, settings.num_class, is_auto
            )
            if objective != settings.objective:
                settings = replace(settings, objective=objective, num_class=len(self.classes))
        self.settings = settings
        self.objective = XGBoostObjective(settings.objective, settings.n_classes, settings.scale_pos_weight)
        self._evals, self._sets = self._read_evals(evals)
        self._described = _description(introductions)
        self._training = self._digest()
        self._load()
        self._reconnecting = Reconnector(patience, self.reopen, self.traffic)
        self._reconnecting(self._open_or_resume)  # which does nothing where reopening has done it
        self.shared = SharedTrees(
            self.objective, self.n_features, self.progress.base_score, settings.max_depth
        )
        self.shared.rounds = self.progress.rounds
        for rows in self._evals:
            rows.margin = self.shared.start(len(rows.y))

    @property
    def traffic(self) -> Traffic:
        """Traffic that left each party, earlier sessions included."""
        return self.progress.traffic

    def _digest(self) -> str:
        """Names everything that the result of the training run depends on and the coordinator knows."""
        evals: list[Any] = []
        for rows, own in zip(self._evals, self._sets, strict=True):
            evals += [own.name, rows.X, rows.y]
        params = json.dumps(_given(self.settings))
        return digest_of(type(self).__name__, params, self._names, self._described, self._options(), *evals)

    def _options(self) -> tuple[Any, ...]:
        """Further options that the result depends on."""
        return (self._turns.rounds_per_turn,)

    def _load(self) -> None:
        """Take up the progress of an earlier process, if there is any."""
        if self._checkpoint is None:
            return
        kept = self._checkpoint.load(self._training)
        if kept is not None:
            self.traffic.add(kept.traffic)
            kept.traffic = self.traffic
            vars(self.progress).update(vars(kept))

    def save(self) -> None:
        """Put the progress on the disk."""
        if self._checkpoint is not None:
            self._checkpoint.save(self.progress)

    def _introduced(self) -> list[RowShape]:
        """Start a session with every party."""
        session = os.urandom(16)
        self._session = session
        self.channels = [Channel(party, session, self.traffic, COORDINATOR) for party in self._parties]
        introductions = self.ask_all(Introduce(int(self._classify)), RowShape)
        for channel, answer in zip(self.channels, introductions, strict=True):
            check_introduction(channel.name, answer, self._classify)
        return introductions

    def reopen(self) -> None:
        """Go on in new sessions with every party."""
        introductions = self._introduced()
        if _description(introductions) != self._described:
            raise ProtocolError("a party describes other rows than the training run began with")
        self._open_or_resume()
        logger.info("all parties are available; going on after %d rounds", len(self.progress.rounds))

    def _open_or_resume(self) -> None:
        """Open the training run in the present sessions, or take it up after its finished rounds."""
        rounds = self.progress.rounds
        if self._opened == self._session:
            return
        if rounds:
            resume = wire.ResumeBoosting(self.progress.run, len(rounds), self._turns.max_rounds)
            self.ask_all(resume, messages.Done)
        else:
            self.progress.base_score = self._open()
        self._opened = self._session

    def ask_all(self, message: messages.Message, answer: type[M]) -> list[M]:
        """Ask every party the same, all at the same time."""
        return self._for_each(lambda channel: channel.ask(message, answer), self.channels)

    def together(self, work: Sequence[Callable[[], Answer]]) -> list[Answer]:
        """Run functions at the same time."""
        return self._for_each(lambda one: one(), work)

    def others(self, place: int) -> list[tuple[int, Channel]]:
        """Return every party but one, with its place."""
        return [(k, channel) for k, channel in enumerate(self.channels) if k != place]

    def encode(self, y: Any, argument: str) -> NDArray[np.float32]:
        """Encode labels as the objective has them; InvalidDataError for unknown or missing labels."""
        if self.classes is None:
            labels = numeric_vector(y, argument)
        else:
            places = places_among(self.classes.tolist(), y)
            if (places < 0).any():
                raise InvalidDataError(f"{argument} has {(places < 0).sum()} labels that no party has")
            labels = places.astype(np.float32)
        self.objective.check_labels(labels)
        return labels

    def _read_evals(
        self, evals: Sequence[tuple[tuple[Any, ...], str]]
    ) -> tuple[list[_EvaluationRows], list[EvaluationSet]]:
        read, sets = [], []
        names = [name for _, name in evals]
        if len(set(names)) != len(names) or any("-" in name for name in names):
            raise InvalidArgumentError(f"evaluation sets must have different names without '-', not {names}")
        for given, name in evals:
            if len(given) not in (2, 3):
                raise InvalidArgumentError(f"evaluation set {name!r} must be (X, y) or (X, y, weight)")
            X, columns = read_rows(given[0], f"X of {name!r}")
            y = self.encode(given[1], f"y of {name!r}")
            if X.shape[1] != self.n_features or columns != (self.names if columns else []):
                raise InvalidDataError(f"evaluation set {name!r} has other columns than the parties")
            if X.shape[0] != len(y):
                raise InvalidDataError(f"evaluation set {name!r} has {X.shape[0]} rows and {len(y)} labels")
            weight = check_weight(given[2] if len(given) == 3 else None, len(y), f"weight of {name!r}")
            read.append(_EvaluationRows(X, y, np.empty((0, 1), dtype=np.float32)))
            sets.append(EvaluationSet(name, Targets(y, weight)))
        return read, sets

    def _open(self) -> list[float]:
        """Open the session everywhere and agree on a base score: the mean label of all parties."""
        params = json.dumps(_given(self.settings))
        classes = "" if self.classes is None else json.dumps(self.classes.tolist())
        rows = np.array(self.party_rows, dtype=np.int64)
        turns = self._turns.rounds_per_turn, self._turns.max_rounds
        opened = self.together(
            [
                lambda c=c, k=k: c.ask(OpenHorizontal(params, classes, k, rows, *turns), HorizontalOpened)  # type: ignore[misc]
                for k, c in enumerate(self.channels)
            ]
        )
        if self.settings.base_score is not None:
            return [float(self.settings.base_score)]
        if self.objective.n_classes > 1:
            return [0.5]
        return [common_mean_label(self._names, opened, self.objective.name == "binary:logistic")]

    def prepare(self) -> None:
        """Do what precedes the first round; nothing in TFL."""

    def gather(self, builder: int) -> None:
        """Send the builder what it needs of the others; nothing in TFL."""

    def _start(self) -> None:
        """Do what precedes the first round; done again in new sessions if a party is lost meanwhile."""
        self.prepare()
        self.progress.run = self._session
        self.ask_all(wire.StartBoosting(np.array(self.shared.base_score)), messages.Done)

    def _grow(self, number: int) -> Trees:
        """One round, done again if a party is lost: one that has answered gives the same answers."""
        if not self.progress.rounds and self.progress.run != self._session:
            # No party has trees yet, so that there is nothing to resume.
            self._start()
        builder = self._turns.builder(number)
        self.gather(builder)
        grown = self.channels[builder].ask(wire.GrowTrees(number), Trees)
        try:
            self.shared.read_round(grown)
        except ProtocolError as error:
            raise ProtocolError(f"party {self._names[builder]!r}: {error}") from None
        self.together([lambda c=c: c.ask(grown, messages.Done) for _, c in self.others(builder)])  # type: ignore[misc]
        return grown

    def _evaluate(self, grown: Trees) -> None:
        """Add a round's trees to the margins of evaluation sets."""
        trees = self.shared.read_round(grown) if self._evals else []
        for rows in self._evals:
            add_round(rows.margin, rows.X, trees)

    def grow(self, number: int) -> None:
        """Grow a round, unless an earlier process has."""
        if number == len(self.shared.rounds):
            grown = self._reconnecting(lambda: self._grow(number))
            self.shared.rounds.append(grown)
            self.save()
        self._evaluate(self.shared.rounds[number])

    def run(self, options: LoopOptions) -> HorizontalModel:
        """Prepare, train, and give every party the model.

        Raises CheckpointError if the checkpoint has more rounds than are asked for, and PartyUnavailableError
        if a party is lost and not back within the run's patience.
        """
        n_taken_up = len(self.progress.rounds)
        if n_taken_up > options.num_boost_round:
            raise CheckpointError(
                f"the checkpoint has {n_taken_up} rounds; num_boost_round={options.num_boost_round}"
            )
        with self._pool:
            if not self.progress.rounds:
                self._reconnecting(self._start)
            result = boost(
                options,
                self.settings.of_xgboost,
                self._sets,
                lambda: [rows.margin for rows in self._evals],
                self.grow,
                description="federated rounds",
            )
            best = result.best_iteration
            finish = wire.FinishBoosting(-1 if best is None else best)
            self._reconnecting(lambda: self.ask_all(finish, messages.Done))
        booster = self.shared.booster(self.names, best)
        return HorizontalModel(
            booster, self.classes, self.traffic, best, result.best_score, result.evals_result
        )


def _description(introductions: list[RowShape]) -> list[tuple[int, int, str, str]]:
    """Descriptions of the parties' rows, to be compared."""
    return [(one.n_rows, one.n_features, one.names, one.classes) for one in introductions]


def _given(settings: Settings) -> dict[str, Any]:
    """Write a settings object as parameters."""
    return {name: value for name, value in asdict(settings).items() if value is not None}

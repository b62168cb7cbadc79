"""Exact training across organisations with the same columns: its coordinator forwards masked sums.

Every party works out the questions, adds up the answers and grows the trees itself.  The coordinator passes
signed contributions on, and asks for the model at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import xgboost

from gbdt_parties.channel import Channel, Party
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.messages import Abort, Done, Finish, Message
from gbdt_parties.quoting import quoted
from gbdt_parties.secure_sum.messages import (
    AskModel,
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Endorsed,
    FinishedModel,
    Opened,
    Revealed,
    pack,
)
from gbdt_parties.secure_sum.roster import SESSION_BYTES, Introduction, Roster
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.errors import FewPartiesWarning, InvalidArgumentError
from xgb_fed.horizontal.coordinator import as_parties
from xgb_fed.horizontal.exact_cuts import DIGITS
from xgb_fed.horizontal.exact_messages import ExactIntroduced, OpenExact, ProposeExact
from xgb_fed.horizontal.exact_run import ExactTerms
from xgb_fed.horizontal.exact_task import (
    GIVEN,
    MIN_ROWS_PER_NODE,
    ExactTask,
    check_whole,
    checked_cuts,
    exact_settings,
    given_parameters,
    read_names,
)
from xgb_fed.horizontal.introductions import common_classes, common_columns, read_classes
from xgb_fed.horizontal.party_rows import COORDINATOR
from xgb_fed.horizontal.shared_model import HorizontalModel

M = TypeVar("M", bound=Message)
_CLASSES_OF = {"multi:softprob": 2}
"""Number of classes in settings that are checked before the parties' classes are known."""

TWO_PARTIES = (
    "with two parties, each learns the other's sums: what the sum of both is without its own; the guide to "
    "horizontal training says what can be read from sums"
)


def train_exact(
    params: Mapping[str, Any],
    parties: Sequence[Any],
    num_boost_round: int = 10,
    *,
    cuts: Any = "grid",
    min_rows_per_node: int = MIN_ROWS_PER_NODE,
    min_parties: int = 2,
    evals: Sequence[tuple[tuple[Any, ...], str]] = (),
    early_stopping_rounds: int | None = None,
    verbose_eval: bool | int = True,
    random_state: int | None = None,
) -> HorizontalModel:
    """Train the model of stock XGBoost on the rows of all parties, of which nobody sees anything but sums.

    With ``min_rows_per_node=1`` the trees are, node by node, those of XGBoost's ``tree_method="hist"`` on all
    rows in one place with the same cuts.

    Parameters
    ----------
    params : mapping
        XGBoost's parameters; see `Settings`.  ``objective="binary:logistic"`` becomes ``multi:softprob`` if
        the parties have more than two classes.
    parties : sequence
        Pairs (X, y), triples (X, y, sample_weight), or `HorizontalParty` objects; at least two.
    num_boost_round : int, default=10
        Number of rounds.
    cuts : {"grid", "exact"} or sequence of array-like, default="grid"
        Where columns are cut: at pooled quantiles, found by sums of counts, of values rounded down to 12
        significant bits ("grid") or as they are ("exact"), which are then values of somebody's rows; or at
        public numbers, given for each column.  ``max_bin`` says how many there are.
    min_rows_per_node : int, default=10
        Rows of all parties that both sides of a split must have.
    min_parties : int, default=2
        Parties that must take part.
    evals : sequence of ((X, y) or (X, y, weight), str)
        Held-out rows of the first party that is given as (X, y); `ExactTerms.held_out` has those of others.
    early_stopping_rounds : int, optional
        Stop when the last metric of the last set of held-out rows, of all parties together, has not improved
        for this many rounds.
    verbose_eval : bool or int, default=True
        Whether to print metrics, when training has ended, or after how many rounds each time.
    random_state : int, optional
        Determines which rows the parties that are given as (X, y) draw for ``subsample``.  Drawn from the
        operating system by default.

    Returns
    -------
    HorizontalModel

    Raises
    ------
    InvalidArgumentError, UnsupportedParameterError
        For parameters that cannot be trained with; the text names them.
    InvalidDataError
        For rows, labels or columns that cannot be trained on, or that differ; nothing has left a party then
        but column names and classes.
    ProtocolError, PartyRefusedError
        If a party breaks the protocol, or refuses.
    PartyUnavailableError
        If a party is lost.

    Warns
    -----
    FewPartiesWarning
        If there are two.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> import xgb_fed
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> parties = [(X[:200], y[:200]), (X[200:400], y[200:400]), (X[400:], y[400:])]
    >>> params = {"objective": "binary:logistic", "max_depth": 3}
    >>> model = xgb_fed.train_exact(params, parties, 5)
    >>> model.booster.num_boosted_rounds()
    5
    """
    settings = exact_settings({"num_class": _CLASSES_OF.get(params.get("objective", "")), **params})
    random_state = settings.random_state if random_state is None else random_state
    if random_state is not None:
        check_whole("random_state", random_state, 0)
    members = _members(
        parties,
        evals,
        ExactTerms(min_rows_per_node, min_parties, (*DIGITS, GIVEN), MAX_BINS),
        random_state,
        settings.objective != "reg:squarederror",
    )
    if len(members) < min_parties:
        raise InvalidArgumentError(f"parties has {len(members)}; min_parties={min_parties} must take part")
    if len(members) == 2:
        warnings.warn(TWO_PARTIES, FewPartiesWarning, stacklevel=2)

    def task_of(introduced: Sequence[ExactIntroduced]) -> ExactTask:
        names = [member.name for member in members]
        n_columns, columns = common_columns(names, introduced)
        classes, own = None, given_parameters(settings)
        own.pop("random_state", None)
        if settings.objective != "reg:squarederror":
            classes = common_classes(introduced).tolist()
            if len(classes) > 2 and settings.objective == "binary:logistic":
                own["objective"] = "multi:softprob"
            if own["objective"] == "multi:softprob":
                given = params.get("num_class")
                if given not in (None, len(classes)):
                    raise InvalidDataError(f"num_class={given!r}; the parties have {len(classes)} classes")
                own["num_class"] = len(classes)
            exact_settings(own)
        return ExactTask(
            own,
            num_boost_round,
            n_columns,
            columns,
            classes,
            checked_cuts(cuts, n_columns),
            min_rows_per_node,
            min_parties,
            early_stopping_rounds,
            max(one.n_sets for one in introduced),
        )

    model = _Coordinator(members).run(task_of, settings.objective != "reg:squarederror")
    _print(model.evals_result, verbose_eval)
    return model


def _members(
    parties: Sequence[Any],
    evals: Sequence[tuple[tuple[Any, ...], str]],
    terms: ExactTerms,
    random_state: int | None,
    categorical_labels: bool,
) -> list[Party]:
    """Make parties of rows; the first one made has the evaluation sets."""
    made = [k for k, given in enumerate(parties) if isinstance(given, (tuple, list))]
    if evals and not made:
        raise InvalidArgumentError(
            "eval_set needs a party that is given as (X, y); parties of their own have "
            "HorizontalParty(exact=ExactTerms(held_out=...))"
        )
    first = replace(terms, held_out=[rows for rows, _ in evals])
    return as_parties(
        parties,
        random_state,
        categorical_labels=categorical_labels,
        exact=lambda k: first if made and k == made[0] else terms,
    )


class _Coordinator:
    """Forwards messages between the parties of one run."""

    def __init__(self, parties: Sequence[Party]) -> None:
        self.traffic = Traffic()
        self._session = os.urandom(SESSION_BYTES)
        self._channels = [Channel(party, self._session, self.traffic, COORDINATOR) for party in parties]
        self._pool = ThreadPoolExecutor(len(parties), thread_name_prefix="xgb_fed")

    def run(
        self, task_of: Callable[[Sequence[ExactIntroduced]], ExactTask], wants_classes: bool
    ) -> HorizontalModel:
        """Everything, from introductions to the model."""
        with self._pool:
            try:
                task = self._introduce(task_of, wants_classes)
                self._rounds()
                model = self._model(task)
                self._ask_all(Finish(), Done)
            except BaseException:
                for channel in self._channels:
                    with suppress(Exception):
                        channel.ask(Abort(), Done)
                raise
        return model

    def _ask_all(self, message: Message, answer: type[M]) -> list[M]:
        """Ask all parties the same, at the same time."""
        return list(self._pool.map(lambda channel: channel.ask(message, answer), self._channels))

    def _introduce(
        self, task_of: Callable[[Sequence[ExactIntroduced]], ExactTask], wants_classes: bool
    ) -> ExactTask:
        introduced = self._ask_all(OpenExact(int(wants_classes)), ExactIntroduced)
        own = []
        for channel, answer in zip(self._channels, introduced, strict=True):
            own.append(_checked(channel.name, answer, wants_classes))
        task = task_of(introduced)
        text, roster = task.to_json(), Roster(self._session, task.statement, tuple(own))
        signatures = self._ask_all(ProposeExact(text, roster.to_bytes()), Endorsed)
        seeds = self._ask_all(ConfirmRoster(pack([one.signature for one in signatures])), Revealed)
        self._ask_all(BeginRounds(pack([one.seed for one in seeds])), Done)
        return task

    def _rounds(self) -> None:
        """Collect everybody's answers, and pass them on with the next question, until there is none."""
        places, opened, number = np.arange(len(self._channels), dtype=np.int32), b"", 0
        while True:
            answers = self._ask_all(AskSum(number, number + 1, places, opened), Contributed)
            contents = [answer.content for answer in answers]
            if not any(contents):
                return
            if not all(contents):
                raise ProtocolError("the parties disagree about whether training has ended")
            opened = Opened(number, number + 1, dict(enumerate(contents))).to_bytes()
            number += 1

    def _model(self, task: ExactTask) -> HorizontalModel:
        """The model, which all parties must have alike."""
        text = self._channels[0].ask(AskModel(1), FinishedModel).text
        digest = hashlib.sha256(text.encode()).digest()
        for channel, answer in zip(self._channels, self._ask_all(AskModel(0), FinishedModel), strict=True):
            if answer.digest != digest:
                raise ProtocolError(f"party {channel.name!r} has another model than the others")
        values = json.loads(text)
        booster = xgboost.Booster()
        booster.load_model(bytearray(values["booster"].encode()))
        return HorizontalModel(
            booster,
            None if task.classes is None else np.array(task.classes),
            self.traffic,
            values["best_iteration"],
            values["best_score"],
            values["evals_result"],
            [np.array(own, dtype=np.float32) for own in values["cuts"]],
        )


def _checked(party: str, answer: ExactIntroduced, wants_classes: bool) -> Introduction:
    """What a party says of its columns, checked before anything is made of it."""
    try:
        own = Introduction.from_bytes(answer.introduction)
        if own.name != party:
            raise ProtocolError(f"the name {quoted(own.name)!r}")
        names = read_names(answer.names)
        if not 1 <= answer.n_features < 2**31 or len(names) not in (0, answer.n_features):
            raise ProtocolError(f"{answer.n_features} columns and {len(names)} names")
        if not 0 <= answer.n_sets < 2**10:
            raise ProtocolError(f"{answer.n_sets} sets of held-out rows")
        if wants_classes:
            read_classes(answer.classes)
    except (ProtocolError, InvalidDataError) as error:
        raise ProtocolError(f"party {party!r} introduces itself with {quoted(str(error))}") from None
    return own


def _print(results: Mapping[str, Mapping[str, Sequence[float]]], verbose: bool | int) -> None:
    """Print metrics as XGBoost does, every so many rounds."""
    columns = [(name, metric, values) for name, of in results.items() for metric, values in of.items()]
    if not verbose or not columns:
        return
    for number in range(0, len(columns[0][2]), 1 if verbose is True else int(verbose)):
        parts = (f"{name}-{metric}:{values[number]:.5f}" for name, metric, values in columns)
        print(f"[{number}]\t" + "\t".join(parts))

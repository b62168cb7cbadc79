"""Exact training across organisations with the same columns, on sums that hide each party's part.

Every party works out the questions, adds up the answers and grows the trees itself.  The coordinator passes
signed contributions on, and asks for the model at the end.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

from tqdm.auto import tqdm

from gbdt_parties.channel import Party
from gbdt_parties.run.coordinator import Purpose, coordinate
from gbdt_parties.run.exchange import Participation
from gbdt_parties.run.progress import Checkpoint, Memory
from gbdt_parties.secure_sum.messages import unpack
from gbdt_parties.traffic import Traffic
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.boosting.loop import check_patience
from xgb_fed.boosting.objectives import CLASS_OBJECTIVES, SOFTMAX
from xgb_fed.errors import CheckpointError, FewPartiesWarning, InvalidArgumentError
from xgb_fed.horizontal.common.introductions import common_classes, common_columns
from xgb_fed.horizontal.common.model import HorizontalModel, of_classes
from xgb_fed.horizontal.exact.cuts import DIGITS
from xgb_fed.horizontal.exact.exchange import ExactDescription, OpenExactRun, read_content, request_of
from xgb_fed.horizontal.exact.task import (
    GIVEN,
    MIN_ROWS_PER_NODE,
    ExactTask,
    check_whole,
    checked_cuts,
    exact_settings,
    given_parameters,
)
from xgb_fed.horizontal.exact.terms import ExactTerms
from xgb_fed.horizontal.exact.training import RoundsDone
from xgb_fed.horizontal.parties import as_parties
from xgb_fed.horizontal.party import HorizontalParty

Results: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Metrics by set, metric and round."""


class RoundsShown:
    """Shows a run as it goes, of `n_rounds` rounds.

    `done` gives the `RoundsDone` of a party in this process; without one, masked sums are all that is seen.
    `verbose` is whether to print metrics, or after how many rounds; `on_round` is called with a round's
    number and the metrics up to it.
    """

    def __init__(
        self,
        n_rounds: int,
        done: Callable[[], RoundsDone] | None,
        verbose: bool | int,
        on_round: Callable[[int, Results], None] | None = None,
    ) -> None:
        self._done, self._period, self._on_round = done, int(verbose), on_round
        self._n_shown = 0
        known: dict[str, Any] = {"unit": " sums"} if done is None else {"total": n_rounds, "unit": " rounds"}
        self.bar = tqdm(desc="exact training", disable=None, leave=False, **known)

    def __enter__(self) -> RoundsShown:
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def __call__(self, n_opened: int) -> None:
        """Show what is new after so many sums."""
        if self._done is None:
            self.bar.update(n_opened - self.bar.n)
            return
        done = self._done()
        self.show(done)
        self.bar.update(self._n_shown - self.bar.n)

    def show(self, done: RoundsDone) -> None:
        """Show rounds that have ended, each once: a party that takes a run up computes them again."""
        for number in range(self._n_shown, done.n):
            metrics = [
                f"{name}-{metric}:{values[number]:.5f}"
                for name, of_set in done.results.items()
                for metric, values in of_set.items()
            ]
            if self._period and number % self._period == 0 and metrics:
                tqdm.write(f"[{number}]\t" + "\t".join(metrics))
            self.bar.set_postfix_str(", ".join(metrics), refresh=False)
            if self._on_round is not None:
                self._on_round(number, _until(number, done.results))
        self._n_shown = max(self._n_shown, done.n)


def _until(number: int, results: Results) -> Results:
    return {
        name: {metric: list(values[: number + 1]) for metric, values in of_set.items()}
        for name, of_set in results.items()
    }


_CLASSES_OF = dict.fromkeys(SOFTMAX, 2)
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
    on_round: Callable[[int, Results], None] | None = None,
    random_state: int | None = None,
    traffic: Traffic | None = None,
    checkpoint: str | Path | None = None,
    patience: float = 0.0,
) -> HorizontalModel:
    """Train the model of stock XGBoost on the rows of all parties, which reveal only sums.

    With ``min_rows_per_node=1`` the trees are, node by node, those of XGBoost's ``tree_method="hist"`` on all
    rows in one place with the same cuts.

    Parameters
    ----------
    params : mapping
        XGBoost's parameters; see `Settings`.  ``objective="auto"`` is ``binary:logistic``, or
        ``multi:softprob`` where a party has more than two classes.
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
        Whether to print metrics, or after how many rounds each time: as rounds end, or if no party is in this
        process, when training has ended.
    on_round : callable, optional
        Called when a round has ended, with its number from 0, and metrics by set, metric and round; if no
        party is in this process, when training has ended.
    random_state : int, optional
        Determines which rows the parties that are given as (X, y) draw for ``subsample``.  Drawn from the
        operating system by default.
    traffic : Traffic, optional
        Counts what is sent; otherwise the model has one of its own.
    checkpoint : path, optional
        Directory for the coordinator's progress.  The same call after a crash goes on after the last sum, and
        ends in the same model; one that has ended gives it again.  The parties must keep their part too:
        servers do, and `HorizontalParty` objects with a ``directory``.
    patience : float, default=0.0
        Seconds to wait for a party that is unavailable, in all within one question, before giving up.  The
        others wait with it: a sum without it would give it away.

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
        If a party is lost, and not back within `patience` seconds.
    CheckpointError
        If `checkpoint` belongs to another training run, is damaged, or is in use.

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
    check_patience(patience)
    if checkpoint is not None and any(isinstance(party, (tuple, list)) for party in parties):
        raise InvalidArgumentError(
            f"checkpoint={str(checkpoint)!r} needs parties that keep their part of the run: servers, "
            "or HorizontalParty objects with a directory"
        )
    params, is_auto = of_classes(params)
    settings = exact_settings({"num_class": _CLASSES_OF.get(params.get("objective", "")), **params})
    random_state = settings.random_state if random_state is None else random_state
    if random_state is not None:
        check_whole("random_state", random_state, 0)
    members = _members(
        parties,
        evals,
        ExactTerms(min_rows_per_node, min_parties, (*DIGITS, GIVEN), MAX_BINS, max_samples=sys.maxsize),
        random_state,
        settings.objective in CLASS_OBJECTIVES,
    )
    if len(members) < min_parties:
        raise InvalidArgumentError(f"parties has {len(members)}; min_parties={min_parties} must take part")
    if len(members) == 2:
        warnings.warn(TWO_PARTIES, FewPartiesWarning, stacklevel=2)

    wants_classes = settings.objective in CLASS_OBJECTIVES

    def agreement(descriptions: Sequence[tuple[str, str]]) -> tuple[str, bytes]:
        described = [ExactDescription.read(*own, wants_classes) for own in descriptions]
        names = [name for name, _ in descriptions]
        n_columns, columns = common_columns(names, described)
        classes, own = None, given_parameters(settings)
        own.pop("random_state", None)
        if wants_classes:
            num_class = params.get("num_class")
            found, own["objective"] = common_classes(names, described, settings.objective, num_class, is_auto)
            classes = found.tolist()
            if own["objective"] in SOFTMAX:
                own["num_class"] = len(classes)
            exact_settings(own)
        task = ExactTask(
            own,
            num_boost_round,
            n_columns,
            columns,
            classes,
            checked_cuts(cuts, n_columns),
            min_rows_per_node,
            min_parties,
            early_stopping_rounds,
            max(one.n_sets for one in described),
        )
        return task.to_json(), task.statement

    about = [
        given_parameters(settings),
        num_boost_round,
        checked_cuts(cuts, len(cuts) if hasattr(cuts, "__len__") else 0),
        min_rows_per_node,
        min_parties,
        early_stopping_rounds,
    ]
    counted = Traffic() if traffic is None else traffic
    here = next((party for party in members if isinstance(party, HorizontalParty)), None)
    with ExitStack() as stack:
        shown = stack.enter_context(
            RoundsShown(
                num_boost_round, None if here is None else lambda: here.exact_rounds, verbose_eval, on_round
            )
        )
        purpose = Purpose(OpenExactRun, request_of(wants_classes), Participation(), agreement, shown)
        if checkpoint is None and patience > 0:
            # Parties that come back are sent what they missed, which may not fit into memory.
            checkpoint = stack.enter_context(TemporaryDirectory(prefix="veilboost-"))
        kept = Memory(only_last=True) if checkpoint is None else Checkpoint(checkpoint, CheckpointError)
        progress = coordinate(members, purpose, about, counted, patience, kept)
        classes = json.loads(progress.task)["classes"]
        model = read_content(unpack(progress.model), classes, counted, progress.signatures)
        shown.show(RoundsDone(model.booster.num_boosted_rounds(), model.evals_result))
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

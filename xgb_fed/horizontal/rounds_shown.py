"""Exact training as its caller sees it: rounds, metrics, and a bar where a person watches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tqdm.auto import tqdm

from xgb_fed.horizontal.exact.training import RoundsDone

Results: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Metrics by set, metric and round."""


class RoundsShown:
    """Shows a run as it goes.

    Parameters
    ----------
    n_rounds : int
        Rounds that were asked for.
    done : callable or None
        Gives the `RoundsDone` of a party in this process; None if there is none, so that masked sums are all
        that is seen.
    verbose : bool or int
        Whether to print metrics, or after how many rounds each time.
    on_round : callable, optional
        Called with a round's number and the metrics up to it.
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
        self._bar = tqdm(desc="exact training", disable=None, leave=False, **known)

    def __enter__(self) -> RoundsShown:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def __call__(self, n_opened: int) -> None:
        """Show what is new after so many sums."""
        if self._done is None:
            self._bar.update(n_opened - self._bar.n)
            return
        done = self._done()
        self.show(done)
        self._bar.update(self._n_shown - self._bar.n)

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
            self._bar.set_postfix_str(", ".join(metrics), refresh=False)
            if self._on_round is not None:
                self._on_round(number, _until(number, done.results))
        self._n_shown = max(self._n_shown, done.n)


def _until(number: int, results: Results) -> Results:
    return {
        name: {metric: list(values[: number + 1]) for metric, values in of_set.items()}
        for name, of_set in results.items()
    }

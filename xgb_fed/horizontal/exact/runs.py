"""The exact training runs of one coordinator at one party: the one under way, and those that are kept.

A run that has begun is kept on the disk with its keys and its rows' digest, and beside it a journal of what
was answered.  A party that was restarted takes it up from its first sum: the coordinator has all of them, and
signatures show that they are the ones that were added up before.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xgboost

from gbdt_commons.files import make_folder
from gbdt_commons.sealed import read_sealed, write_sealed
from gbdt_hosts.xgboost.model import as_json
from gbdt_parties.errors import PartyError, ProtocolError
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Finish, Message
from gbdt_parties.secure_sum.answers import AnswerJournal
from gbdt_parties.secure_sum.messages import BeginRounds
from gbdt_parties.secure_sum.roster import SESSION_BYTES
from xgb_fed.errors import FederatedTrainingError
from xgb_fed.horizontal.common.kept_models import KeptModels
from xgb_fed.horizontal.common.kept_state import KeptState
from xgb_fed.horizontal.common.rows import RunLimits
from xgb_fed.horizontal.exact.messages import NEW_RUN, OpenExact
from xgb_fed.horizontal.exact.run import ExactRun, RunConditions
from xgb_fed.horizontal.exact.terms import ExactSide

MAX_RUNS = 4
"""Runs of one coordinator that are kept; the oldest are removed first."""

_RUN, _ANSWERS, _LOCK = ".json", ".answers", ".lock"


class _Journals:
    """Opens the journals of answers, on the disk if there is a folder; else it keeps the last one."""

    def __init__(self, folder: Path | None) -> None:
        self._folder, self._run = folder, b""
        self._last: AnswerJournal | None = None

    def __call__(self, run: bytes) -> AnswerJournal:
        if self._folder is not None:
            # Not waited for on the disk: what a power failure takes is computed again, from the same rows.
            return AnswerJournal(_path(self._folder, run, _ANSWERS), {"run": run.hex()}, sync=False)
        if self._last is None or self._run != run:
            self._run, self._last = run, AnswerJournal(None, {"run": run.hex()})
        return self._last

    def forget(self) -> None:
        """Forget what is in memory: the run has ended, and its number may be that of another one."""
        self._last = None


class ExactRuns:
    """Runs of one coordinator.

    Parameters
    ----------
    side : ExactSide
    folder : Path or None
        Where runs are kept; in memory only without it, the last one alone.
    models : KeptModels or None
        Where finished models are kept.
    limits : RunLimits
    memory : MemoryAllowance
    kept : KeptState
        See `RunConditions`.

    Attributes
    ----------
    booster : xgboost.Booster or None
        The model of the last run that has ended.
    """

    def __init__(
        self,
        side: ExactSide,
        folder: Path | None,
        models: KeptModels | None,
        limits: RunLimits,
        memory: MemoryAllowance,
        kept: KeptState,
    ) -> None:
        self._side, self._folder, self._models = side, folder, models
        self._journals = _Journals(folder)
        self._conditions = RunConditions(limits, memory, kept, self._journals)
        self._live: ExactRun | None = None
        self.booster: xgboost.Booster | None = None

    def open(self, message: OpenExact) -> ExactRun:
        """A new run, or a known one that has opened no more sums than its coordinator has.

        Raises
        ------
        ProtocolError
            If the run is not known, or known already.
        """
        run = message.run
        if len(run) != SESSION_BYTES:
            raise ProtocolError("a run id must be 16 bytes")
        live = self._live if self._live is not None and self._live.run == run else None
        if message.n_known == NEW_RUN:
            if self._models is not None:
                self._models.check_room()
            if live is not None or self._is_kept(run):
                raise ProtocolError("a run of this number has begun already")
            return self._replace(ExactRun(self._side, run, self._conditions))
        if live is not None and not live.has_begun:
            raise ProtocolError("the run has not begun")
        if live is not None and live.n_opened <= message.n_known:
            return live
        if live is not None and self._folder is None:
            # The coordinator has lost some sums: they are asked for again, and answered as before.
            return self._replace(ExactRun(self._side, run, self._conditions, live.to_dict()))
        return self._replace(self._restored(run))

    def close(self) -> None:
        """Let go of the run under way, which is taken up again from the disk."""
        if self._live is not None:
            self._live.close()
            self._live = None

    def answer(self, run: ExactRun, message: Message) -> Message:
        """Answer a request; what must outlive this process is on the disk before the answer leaves."""
        if run is not self._live:
            raise ProtocolError("the run was taken up in another session")
        answer = run.answer(message)
        if isinstance(message, BeginRounds):
            self._keep(run)
        if isinstance(message, Finish) and run.model is not None:
            self.booster = run.model.booster
            if self._models is not None:
                self._models.keep(run.run, as_json(self.booster))
            self._forget(run)
        return answer

    def _replace(self, run: ExactRun) -> ExactRun:
        if self._folder is not None:
            self.close()
        self._live = run
        return run

    # On disk.

    def _is_kept(self, run: bytes) -> bool:
        return self._folder is not None and _path(self._folder, run, _RUN).exists()

    def _keep(self, run: ExactRun) -> None:
        if self._folder is None:
            return
        make_folder(self._folder)
        write_sealed(_path(self._folder, run.run, _RUN), run.to_dict())
        ages = sorted(self._folder.glob(f"*{_RUN}"), key=lambda kept: kept.stat().st_mtime_ns)
        for old in ages[:-MAX_RUNS]:
            _remove(self._folder, bytes.fromhex(old.stem))

    def _restored(self, run: bytes) -> ExactRun:
        if self._folder is None or not self._is_kept(run):
            raise ProtocolError("this party does not know the run: it has ended, or its state was removed")
        self.close()
        try:
            kept: dict[str, Any] = read_sealed(_path(self._folder, run, _RUN))
            return ExactRun(self._side, run, self._conditions, kept)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, (PartyError, FederatedTrainingError)):
                raise
            raise ProtocolError("this party's state of the run is damaged") from None

    def _forget(self, run: ExactRun) -> None:
        """Remove the keys of a run that has ended: no answer can be given under them any more."""
        run.close()
        self._journals.forget()
        self._live = None
        if self._folder is not None:
            _remove(self._folder, run.run)


def _path(folder: Path, run: bytes, ending: str) -> Path:
    return folder / f"{run.hex()}{ending}"


def _remove(folder: Path, run: bytes) -> None:
    # The keys first: without them, answers need not be known.
    for ending in (_RUN, _ANSWERS, _LOCK):
        _path(folder, run, ending).unlink(missing_ok=True)

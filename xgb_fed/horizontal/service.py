"""A horizontal party behind a server: training with the coordinators that it allows, within its limits.

Every coordinator has a folder of its own, with its training runs and models. Disclosures about the party's
rows are counted over all of them: its rounds, its groups of rows, and the hashes that it has given away.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Message
from gbdt_parties.run.party_run import ANSWERED
from gbdt_parties.secure_sum.messages import BeginRounds
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.transport.service import Caller, RowService
from xgb_fed.horizontal.common.kept_models import KeptModels
from xgb_fed.horizontal.common.messages import Introduce, OpenHorizontal
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.exact.exchange import OpenExactRun
from xgb_fed.horizontal.party import HorizontalParty, HorizontalSessions
from xgb_fed.horizontal.simfl.messages import ResumeBoosting
from xgb_fed.horizontal.simfl.party import SimFLSide

logger = logging.getLogger(__name__)


class HorizontalService(RowService[HorizontalLimits]):
    """A horizontal party's answers.

    A party whose `ExactTerms` have a certificate, and with it an allow-list, takes part in exact training;
    every other one in SimFL. It has a directory, so that it does not forget its answers when it is started
    again; training runs, models and the record are kept in `directory`.
    """

    party: HorizontalParty
    role = "a party of horizontal training"
    opening = (Introduce, OpenExactRun)
    requests = (*SimFLSide.requests, *ANSWERED)
    questions = (ResumeBoosting,)

    def __init__(self, party: HorizontalParty, directory: str | Path, limits: HorizontalLimits) -> None:
        super().__init__((), False, directory, party.name, limits)
        self.party = party

    def admit(self, caller: str, message: Message) -> None:
        """Refuse the other method than the party's, and training runs whose model there is no room for."""
        if isinstance(message, OpenExactRun) and not self._is_exact:
            # An operator of all other parties would learn this party's own sums.
            raise ProtocolError("this party has no allow-list for exact training: it takes part in SimFL")
        if isinstance(message, Introduce) and self._is_exact:
            raise ProtocolError(
                "this party takes part in exact training, and not in SimFL, which reveals more"
            )
        if isinstance(message, OpenHorizontal):
            KeptModels(self.folder_of(caller) / "models", self.limits.max_models).check_room()

    @property
    def trust(self) -> tuple[Credentials, AllowList] | None:
        """Credentials that rosters of exact training are signed with, and the other signers."""
        side = self.party.exact_side
        return None if side.certified is None else (side.certified, side.allowed)

    @property
    def _is_exact(self) -> bool:
        return self.party.exact_terms.tls is not None

    def served(self, caller: str, message: Message) -> None:
        """Log what a training run has come to."""
        super().served(caller, message)
        if isinstance(message, (OpenHorizontal, BeginRounds)):
            logger.info("%s starts a training run", caller)

    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> HorizontalSessions:
        """Make the party as this coordinator sees it."""
        own = caller.directory, caller.store, caller.used, caller.memory
        return self.party.for_caller(*own, self.limits)

"""The booster a private training returns, and the guarantee inside a model."""

from __future__ import annotations

from pathlib import Path

import lightgbm
from gbdt_hosts import PrivateBooster
from gbdt_hosts.lightgbm_booster import guarantee_of

from lgb_dp.errors import AlteredModelError, NoGuaranteeError
from lgb_dp.ledger import PrivacyReport


class DPBooster(PrivateBooster):
    """A LightGBM booster with a privacy report."""

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the model; while in training, of everything released so far."""
        if self._grower is not None:
            return PrivacyReport.from_lines(self._grower.guarantee())
        return privacy_of(self)


def privacy_of(model: str | Path | lightgbm.Booster) -> PrivacyReport:
    """The privacy guarantee that travels inside a model.

    Parameters
    ----------
    model : path or lightgbm.Booster
        A model file, or a booster, also one loaded by LightGBM alone.

    Raises
    ------
    NoGuaranteeError
        If the model carries none.
    AlteredModelError
        If its trees are not those the guarantee speaks of.  The digests tell an accident, not a forgery:
        whoever can edit the trees can edit the digests.
    """
    lines, digests = guarantee_of(model)
    if "epsilon" not in lines:
        raise NoGuaranteeError("model carries no privacy guarantee")
    known = set(lines["trees"].split(","))
    altered = [i for i, digest in enumerate(digests) if digest not in known]
    if altered:
        raise AlteredModelError(f"trees {altered} of the model are not those its guarantee speaks of")
    return PrivacyReport.from_lines(lines)

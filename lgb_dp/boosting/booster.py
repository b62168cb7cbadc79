"""The booster that private training returns, and the guarantee that is stored inside a model."""

from __future__ import annotations

from pathlib import Path

import lightgbm

from gbdt_hosts.lightgbm import PrivateBooster, guarantee_in, tree_blocks, tree_digest
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.errors import AlteredModelError, NoGuaranteeError


class DPBooster(PrivateBooster):
    """A LightGBM booster with a privacy report."""

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the model; while in training, of everything released so far."""
        if self._grower is not None:
            return PrivacyReport.from_dict(self._grower.guarantee())
        return privacy_of(self)


def privacy_of(model: str | Path | lightgbm.Booster) -> PrivacyReport:
    """The privacy guarantee that travels inside a model.

    Parameters
    ----------
    model : path or lightgbm.Booster
        A model file, or a booster, which may have been loaded by LightGBM alone.

    Returns
    -------
    PrivacyReport

    Raises
    ------
    NoGuaranteeError
        If the model carries none.
    AlteredModelError
        If its trees are not those that the guarantee describes.  The digests detect accidents, not forgery:
        whoever can edit the trees can edit the digests, too.
    """
    if isinstance(model, lightgbm.Booster):
        return report_in(model.model_to_string(num_iteration=-1))
    return report_in(Path(model).read_text(encoding="utf-8"))


def report_in(text: str) -> PrivacyReport:
    """The guarantee inside a model's text; raises as `privacy_of` does."""
    try:
        guarantee = guarantee_in(text) or {}
        report = PrivacyReport.from_dict(guarantee)
        known = set(guarantee["trees"])
    except (KeyError, TypeError, ValueError):
        raise NoGuaranteeError("the model carries no privacy guarantee") from None
    altered = [i for i, block in enumerate(tree_blocks(text)) if tree_digest(block) not in known]
    if altered:
        raise AlteredModelError(f"trees {altered} of the model are not those that its guarantee describes")
    return report

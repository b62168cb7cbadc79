"""The order of the gallery: that of a reader's journey, from one's own table to several organisations."""

from __future__ import annotations

from pathlib import Path

JOURNEY = (
    "recommended",
    "how_good",
    "survival",
    "explain_private",
    "dp_sklearn",
    "mixed_table",
    "dpboost_lightgbm_train",
    "mboost",
    "m_loss_objective",
    "dask_private",
    "spark_private",
    "vertical_xgboost",
    "vertical_insurance",
    "two_banks",
    "remote_two_banks",
    "remote_training",
    "exact_two_hospitals",
    "hospitals",
)
"""Names of the examples; each must be here."""


class JourneySortKey:
    """Sorts examples of a folder by `JOURNEY`.

    Parameters
    ----------
    src_dir : str
        Folder of the examples.
    """

    def __init__(self, src_dir: str) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str) -> int:
        """Place of an example; `ValueError` for one that the journey does not have."""
        return JOURNEY.index(Path(filename).stem)

    def __repr__(self) -> str:
        """The name, which must not change between builds."""
        return "JourneySortKey"

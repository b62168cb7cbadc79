"""The only place that touches what LightGBM and XGBoost do not document: private attributes and model text.

Supported LightGBM versions: 4.2 and newer 4.x; the oldest and the newest are tested.
"""

from gbdt_hosts.lightgbm_booster import PrivateBooster, TreeGrower, take_over
from gbdt_hosts.lightgbm_dataset import StandInDataset
from gbdt_hosts.lightgbm_log import log_info
from gbdt_hosts.lightgbm_params import default_parameters, resolve_aliases
from gbdt_hosts.lightgbm_text import (
    Header,
    Tree,
    guarantee_in,
    model_text,
    tree_blocks,
    tree_digest,
    with_guarantee,
)

__all__ = [
    "Header",
    "PrivateBooster",
    "StandInDataset",
    "Tree",
    "TreeGrower",
    "default_parameters",
    "guarantee_in",
    "log_info",
    "model_text",
    "resolve_aliases",
    "take_over",
    "tree_blocks",
    "tree_digest",
    "with_guarantee",
]

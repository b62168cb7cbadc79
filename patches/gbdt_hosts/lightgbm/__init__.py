"""LightGBM's private surface: the live booster, stand-in data sets, model text, parameter aliases."""

import gbdt_hosts.lightgbm.host
from gbdt_hosts.lightgbm.booster import Evaluation, PrivateBooster, TreeGrower, claimed, grown_text, take_over
from gbdt_hosts.lightgbm.dataset import StandInDataset, check_parameters
from gbdt_hosts.lightgbm.folding import folded_text, moved_text
from gbdt_hosts.lightgbm.initial import InitialModel
from gbdt_hosts.lightgbm.log import log_info
from gbdt_hosts.lightgbm.params import default_parameters, main_names, resolve_aliases
from gbdt_hosts.lightgbm.text import (
    Header,
    Tree,
    TreeFields,
    columns_in,
    guarantee_in,
    header_digest,
    header_lines,
    model_text,
    settings_in,
    tree_blocks,
    tree_digest,
    tree_fields,
    with_guarantee,
)

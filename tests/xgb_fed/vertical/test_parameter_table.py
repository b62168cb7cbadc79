"""The table of parameters in docs/vertical.md: each row is true, and no parameter is missing."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import xgboost

from gbdt_hosts.xgboost import draws
from gbdt_parties.errors import InvalidDataError
from native_trees import read_trees
from random_configurations import assert_same, federated, made, pooled
from xgb_fed.boosting.params import ALIASES, IGNORED, NEUTRAL, OBJECTIVE_PARAMETERS, Settings
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError

PAGE = (Path(__file__).parents[3] / "docs" / "vertical.md").read_text()
SECTION = PAGE.split("### What is lossless\n")[1].split("\n## ")[0]
ROWS = dict(re.findall(r"^\| (.+?) \| (lossless|in distribution|not XGBoost's|refused) \|", SECTION, re.M))

BINARY, SQUARED, SOFT = "binary:logistic", "reg:squarederror", "multi:softprob"
CATEGORIES = {"kinds": ("category", "real", "category", "category", "real"), "enable_categorical": True}
SAMPLES = {"subsample": 0.6, "colsample_bytree": 0.8, "colsample_bylevel": 0.7, "colsample_bynode": 0.7}
KNOWN = tuple(map(int, xgboost.__version__.split(".")[:2]))


def weighted(configuration, zeros=False):
    n = len(configuration.X)
    weight = np.random.default_rng(1).exponential(size=n).round(2) + 0.01
    if zeros:
        weight[::5] = 0
    configuration.info["weight"] = weight.astype(np.float32)
    return configuration


def with_margin(configuration):
    configuration.info["base_margin"] = np.linspace(-1, 1, len(configuration.X), dtype=np.float32)
    return configuration


def custom(configuration):
    configuration.custom = True
    return configuration


def with_rates(configuration):
    configuration.rates = [0.5, 0.1]
    return configuration


def continued(configuration):
    configuration.earlier = {**configuration.params, "max_depth": 2}
    return configuration


LOSSLESS = {
    "objective": [made(SOFT, num_class=3), custom(made(SQUARED, reg_lambda=0.1))],
    "quantile_alpha": [
        made("reg:quantileerror", quantile_alpha=0.7),
        made("reg:pseudohubererror", huber_slope=5.0, base_score=10.0),
        made("reg:tweedie", tweedie_variance_power=1.3),
        made("survival:aft", aft_loss_distribution="logistic", aft_loss_distribution_scale=1.2),
    ],
    "lambdarank_pair_method": [
        made(
            "rank:ndcg",
            lambdarank_pair_method="topk",
            lambdarank_num_pair_per_sample=3,
            ndcg_exp_gain=False,
            **({"lambdarank_normalization": False} if KNOWN >= (2, 1) else {}),
            **({"lambdarank_score_normalization": False} if KNOWN >= (3, 0) else {}),
        )
    ],
    "scale_pos_weight": [made(BINARY, scale_pos_weight=3.0)],
    "max_depth": [made(BINARY, max_depth=0, max_leaves=7, grow_policy="lossguide", max_bin=8)],
    "learning_rate": [made(BINARY, eta=0.1), with_rates(made(BINARY))],
    "reg_lambda": [
        made(BINARY, reg_lambda=0.5, alpha=0.1, gamma=0.01, min_child_weight=0.5, max_delta_step=0.7)
    ],
    "base_score": [made(BINARY, base_score=0.3), with_margin(weighted(made(BINARY)))],
    "num_parallel_tree": [made(BINARY, num_parallel_tree=2)],
    "monotone_constraints": [
        made(BINARY, monotone_constraints=(1, 0, -1), interaction_constraints="[[0,1,3],[2,4]]")
    ],
    "enable_categorical": [made(BINARY, max_cat_to_onehot=3, max_cat_threshold=8, **CATEGORIES)],
    "subsample with random_state": [made(BINARY, seed=3, **SAMPLES)],
    "xgb_model": [continued(made(BINARY))],
    "eval_metric": [made(BINARY, eval_metric="auc", n_jobs=1, verbosity=0, validate_parameters=False)],
    "booster": [
        made(
            BINARY,
            booster="gbtree",
            tree_method="hist",
            sampling_method="uniform",
            device="cpu",
            process_type="default",
            multi_strategy="one_output_per_tree",
        )
    ],
}
IN_DISTRIBUTION = {
    "subsample without random_state": made(BINARY, **SAMPLES),
    "colsample_bynode": made(BINARY, colsample_bynode=0.6, grow_policy="lossguide", seed=1),
}
NOT_OF_XGBOOST = {
    "tree_mode": [
        made(BINARY, tree_mode="mix", trees_per_party=1),
        made(BINARY, tree_mode="layered", active_depth=1),
        made(BINARY, goss=(0.3, 0.2)),
        made(SOFT, num_class=3, multi_output=True),
    ]
}
REFUSED = {
    "lambdarank_unbiased": [(made("rank:ndcg", lambdarank_unbiased=True), "lambdarank_unbiased=True")],
    "several quantile_alpha": [(made("reg:quantileerror", quantile_alpha=[0.1, 0.9]), "must be one number")],
    "booster": [(made(BINARY, booster=value), f"booster='{value}'") for value in ("dart", "gblinear")],
    "tree_method": [
        (made(BINARY, **{name: value}), f"{name}='{value}'")
        for name, value in (
            ("tree_method", "exact"),
            ("tree_method", "approx"),
            ("sampling_method", "gradient_based"),
            ("device", "cuda"),
            ("process_type", "update"),
        )
    ],
    "multi_strategy": [(made(SOFT, num_class=3, multi_strategy="multi_output_tree"), "multi_strategy=")],
    "missing": [(made(BINARY, missing=0.0), "missing=0.0")],
    "updater": [
        (made(BINARY, **{name: value}), f"{name}=.* not supported in federated training")
        for name, value in (
            ("updater", "refresh"),
            ("refresh_leaf", 0),
            ("feature_weights", [1, 2]),
            ("seed_per_iteration", True),
        )
    ],
    "reg_lambda": [(made(BINARY, reg_lambda=0, min_child_weight=0), "reg_lambda=0 with min_child_weight=0")],
    "min_child_weight": [
        (weighted(made(SOFT, num_class=3, min_child_weight=0), zeros=True), "min_child_weight=0")
    ],
}


def key_of(cell):
    """The first parameter that a row names, and what sets it apart from others of that name."""
    name = re.match(r"(?:several )?`?\w+", cell)[0].replace("`", "")
    sample = re.search(r"with(?:out)? `random_state`", cell)
    return name + (f" {sample[0].replace('`', '')}" if sample else "")


def rows(verdict):
    return {key_of(cell): cell for cell, of_it in ROWS.items() if of_it == verdict}


def test_every_row_is_tried():
    assert set(rows("lossless")) == set(LOSSLESS)
    assert set(rows("in distribution")) == set(IN_DISTRIBUTION)
    assert set(rows("not XGBoost's")) == set(NOT_OF_XGBOOST)
    assert set(rows("refused")) == {*REFUSED, "survival"}
    assert len(ROWS) == SECTION.count("\n| `") + SECTION.count("\n| several")


def test_the_table_names_every_parameter_that_is_accepted_and_no_other():
    accepted = {f.name for f in fields(Settings)} - {"objective_parameters"}
    accepted |= {*ALIASES, *NEUTRAL, *IGNORED, *OBJECTIVE_PARAMETERS}
    accepted |= {"obj", "base_margin", "weight", "xgb_model"}  # arguments
    named = set()
    for cell, verdict in ROWS.items():
        if verdict != "refused":
            named |= set(re.findall(r"`(\w+)[`=]", cell))
    assert named == accepted


def test_named_values_are_those_that_are_accepted():
    (cell,) = (cell for cell in ROWS if cell.startswith('`booster="gbtree"`'))
    for name, value in re.findall(r'`(\w+)="?([\w]+)"?`', cell):
        assert value in map(str, NEUTRAL[name])


@pytest.mark.parametrize("key", LOSSLESS)
@pytest.mark.skipif(not draws.are_reproduced(), reason="another build of XGBoost")
def test_lossless_rows(key):
    for configuration in LOSSLESS[key]:
        theirs = pooled(configuration)
        assert any(len(tree["left_children"]) > 3 for tree in read_trees(theirs))
        assert_same(federated(configuration), theirs)


@pytest.mark.parametrize("key", IN_DISTRIBUTION)
def test_rows_in_distribution(key):
    """As many trees of the same shape; test_sampling and test_samples look at the draws."""
    trees, theirs = (read_trees(train(IN_DISTRIBUTION[key])) for train in (federated, pooled))
    assert len(trees) == len(theirs)
    assert all(len(tree["left_children"]) > 1 for tree in trees)


@pytest.mark.parametrize("configuration", NOT_OF_XGBOOST["tree_mode"], ids=lambda c: str(list(c.params)[-1]))
def test_rows_of_other_trees(configuration):
    ours = federated(configuration)
    with pytest.raises((AssertionError, ValueError, KeyError)):
        assert_same(ours, pooled(configuration))


@pytest.mark.parametrize("key", REFUSED)
def test_refused_rows(key):
    for configuration, text in REFUSED[key]:
        with pytest.raises(UnsupportedParameterError, match=text):
            federated(configuration)


@pytest.mark.parametrize(
    "constraint", [{"monotone_constraints": (1,)}, CATEGORIES], ids=["monotone", "categories"]
)
def test_several_outputs_refuse_what_their_rows_say(constraint):
    with pytest.raises(InvalidArgumentError, match="multi_output"):
        federated(made(SOFT, num_class=3, multi_output=True, **constraint))


def test_margins_too_far_away_are_refused():
    run = made("reg:squaredlogerror")
    run.info["base_margin"] = np.full(len(run.X), -1.5, dtype=np.float32)
    with pytest.raises(InvalidDataError, match="reg:squaredlogerror"):
        federated(run)
    run = made("survival:cox")
    run.info["base_margin"] = np.zeros(len(run.X), dtype=np.float32)
    run.info["base_margin"][np.abs(run.info["label"]).argmin()] = 36
    with pytest.raises(InvalidDataError, match="negative hessians for survival:cox"):
        federated(run)


def test_floors_of_hessians_that_the_table_excepts():
    for objective, more in (
        (SQUARED, {}),
        ("reg:absoluteerror", {}),
        ("reg:quantileerror", {"quantile_alpha": 0.4}),
    ):
        run = made(objective, reg_lambda=0, min_child_weight=0, gamma=0.01, **more)
        assert_same(federated(run), pooled(run))

"""Random training runs over all parameters: every tree is that of stock XGBoost, node by node."""

from collections import Counter

import numpy as np
import pytest
import xgboost

from gbdt_hosts.xgboost import draws
from gbdt_parties.errors import InvalidDataError
from native_trees import read_trees
from random_configurations import REFUSALS, assert_same, draw, federated, pooled, refusal
from xgb_fed.boosting.objectives import ADAPTIVE
from xgb_fed.errors import UnsupportedParameterError

pytestmark = pytest.mark.skipif(not draws.are_reproduced(), reason="another build of XGBoost")

N_DEFAULT, N_ALL = 60, 1000
DURING_TRAINING = {"survival:cox": "negative hessians", "reg:squaredlogerror": "a margin is -1 or less"}
"""What docs/vertical.md says is refused when margins have gone too far."""

MAY_DIVERGE = {167}
"""Configurations in which that happens."""


def check(seed):
    configuration = draw(seed)
    reason = refusal(configuration)
    if reason is not None and REFUSALS[reason] is not None:
        with pytest.raises(UnsupportedParameterError, match=REFUSALS[reason]):
            federated(configuration)
        return
    try:
        ours = federated(configuration)
    except InvalidDataError as error:
        words = DURING_TRAINING.get(configuration.params["objective"])
        if seed not in MAY_DIVERGE or words is None or words not in str(error):
            raise
        return
    try:
        theirs = pooled(configuration)
    except xgboost.core.XGBoostError as error:
        # XGBoost before 2.1 has no forests of these objectives to compare with.
        if configuration.params["objective"] not in ADAPTIVE or "random forest" not in str(error):
            raise
        return
    if reason is None:
        assert_same(ours, theirs)
    else:
        assert len(read_trees(ours)) == len(read_trees(theirs))


@pytest.mark.parametrize("seed", range(N_DEFAULT))
def test_trees_are_those_of_xgboost(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(N_DEFAULT, N_ALL))
def test_more_trees_are_those_of_xgboost(seed):
    check(seed)


def may_be_weighted(seed):
    """Whether a run is compared under other weights: some are those of queries, or of a model before."""
    c = draw(seed)
    return refusal(c) is None and c.earlier is None and c.info.get("qid") is None


def check_weighted(seed, of_two_sizes):
    configuration, rng = draw(seed), np.random.default_rng([7, seed])
    n_rows = len(configuration.X)
    powers = np.where(rng.random(n_rows) < 0.3, -3, 3) if of_two_sizes else rng.uniform(-3, 3, n_rows)
    configuration.info["weight"] = (10.0**powers).astype(np.float32)
    try:
        ours = federated(configuration)
    except InvalidDataError:
        if configuration.params["objective"] not in DURING_TRAINING:
            raise
        return
    assert_same(ours, pooled(configuration))


@pytest.mark.parametrize("of_two_sizes", [False, True])
@pytest.mark.parametrize("seed", list(filter(may_be_weighted, range(200, 204))))
def test_trees_are_those_of_xgboost_for_weights_that_differ_by_a_million(seed, of_two_sizes):
    """Beyond, XGBoost's own sums in another order of the rows can give other trees, too."""
    check_weighted(seed, of_two_sizes)


@pytest.mark.slow
@pytest.mark.parametrize("of_two_sizes", [False, True])
def test_more_trees_are_those_of_xgboost_for_weights_that_differ_by_a_million(of_two_sizes):
    for seed in filter(may_be_weighted, range(204, 400)):
        check_weighted(seed, of_two_sizes)


@pytest.mark.parametrize("n", [N_DEFAULT, N_ALL])
def test_few_are_refused_or_not_comparable(n):
    counted = Counter(refusal(draw(seed)) for seed in range(n))
    del counted[None]
    assert sum(counted.values()) + sum(seed < n for seed in MAY_DIVERGE) <= 0.05 * n
    if n == N_ALL:
        assert set(counted) == set(REFUSALS)


def test_configurations_are_of_all_kinds():
    all_of_them = [draw(seed) for seed in range(N_DEFAULT)]
    assert len({c.params["objective"] for c in all_of_them}) >= 18
    assert {len(c.storage) for c in all_of_them} == {2, 3, 4}
    for kind in (
        lambda c: "c" in c.types,
        lambda c: np.isnan(c.X).any(),
        lambda c: "weight" in c.info,
        lambda c: "base_margin" in c.info,
        lambda c: "sparse" in c.storage,
        lambda c: c.rates is not None,
        lambda c: c.custom,
        lambda c: c.earlier is not None,
        lambda c: "monotone_constraints" in c.params and "c" in c.types,
        lambda c: "interaction_constraints" in c.params,
        lambda c: c.params.get("grow_policy") == "lossguide",
        lambda c: "seed" in c.params and c.params.get("num_parallel_tree", 1) > 1,
    ):
        assert any(map(kind, all_of_them))
    sizes = [
        len(t["left_children"]) for c in all_of_them[:30] if refusal(c) is None for t in read_trees(pooled(c))
    ]
    assert np.mean(np.array(sizes) > 3) > 0.4

"""Pairs of ``lambdarank_pair_method="mean"``: drawn as the installed XGBoost draws them, whatever happens."""

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_hosts.xgboost import draws, versions
from gbdt_parties.errors import PartyUnavailableError
from vertical_training import assert_same_trees, parties_of, train_on

PARAMS = {"objective": "rank:ndcg", "lambdarank_pair_method": "mean", "max_depth": 3, "max_bin": 16}


def ranked(seed=0, n=160):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)).astype(np.float32)
    label = np.digitize(X @ np.ones(5) / 2 + rng.normal(size=n), [-0.4, 0.4])
    return X, {"label": label.astype(np.float32), "qid": np.sort(rng.integers(0, 8, n))}


def pooled(params, X, info, rounds, model=None):
    data = xgboost.QuantileDMatrix(X, max_bin=16)
    data.set_info(**info)
    booster = xgboost.Booster({"nthread": 1, **params}, cache=[data], model_file=model)
    for number in range(rounds):
        booster.update(data, number)
    return booster


@pytest.mark.parametrize(
    "others",
    [
        {},
        {"seed": 7},
        {"seed": 2**32 + 7, "base_score": 0.5},
        {"base_score": 0.3, "lambdarank_num_pair_per_sample": 3},
        {"seed": 7, "num_parallel_tree": 2},
        {"seed": 7, "objective": "rank:pairwise"},
    ],
    ids=str,
)
def test_pairs_are_those_of_xgboost(others):
    (X, info), params = ranked(), {**PARAMS, **others}
    parties = parties_of([X[:, 2:]])
    model = train_on(xgb_fed.ActiveData(X[:, :2], **info), params, parties, 2)
    assert_same_trees(model.export_booster(parties), pooled(params, X, info, 2))


SAMPLES = [
    {"subsample": 0.6},
    {"subsample": 0.6, "base_score": 0.5, "num_parallel_tree": 2},
    {"colsample_bytree": 0.5, "seed": 0},
    {"colsample_bylevel": 0.5, "colsample_bynode": 0.7, "objective": "rank:pairwise"},
    {"subsample": 0.6, "colsample_bytree": 0.7, "grow_policy": "lossguide", "max_leaves": 5},
    {"subsample": 0.8, "colsample_bynode": 0.6, "num_parallel_tree": 3, "seed": 2**32 + 7},
    {"subsample": 0.7, "colsample_bylevel": 0.6, "lambdarank_num_pair_per_sample": 3},
]


@pytest.mark.skipif(not draws.are_reproduced(), reason="another build of XGBoost")
@pytest.mark.parametrize("others", SAMPLES, ids=str)
@pytest.mark.parametrize(
    "is_continued", [pytest.param(False, marks=pytest.mark.slow), True], ids=["", "continued"]
)
def test_pairs_beside_samples_are_those_of_xgboost(others, is_continued, request):
    """Since XGBoost 3.4, pairs, rows and columns take turns at the numbers of one stream."""
    if is_continued and others.get("seed") == 0 and versions.installed() < (2, 1):
        reason = "which numbers XGBoost 2.0 goes on with where the seed is 0 is not known"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    (X, info), params = ranked(), {**PARAMS, "seed": 7, **others}
    parties, data = parties_of([X[:, 2:]]), xgb_fed.ActiveData(X[:, :2], **info)
    first, earlier = None, None
    if is_continued:
        first = train_on(data, params, parties, 1)
        earlier = pooled(params, X, info, 1).save_raw("ubj")
    model = train_on(data, params, parties, 3, xgb_model=first)
    assert_same_trees(model.export_booster(parties), pooled(params, X, info, 3, earlier))


def test_a_continued_model_draws_as_one_that_was_read_from_a_file():
    (X, info), params = ranked(), {**PARAMS, "seed": 3}
    parties, data = parties_of([X[:, 2:]]), xgb_fed.ActiveData(X[:, :2], **info)
    first = train_on(data, params, parties, 2)
    model = train_on(data, params, parties, 3, xgb_model=first)
    earlier = pooled(params, X, info, 2).save_raw("ubj")
    assert_same_trees(model.export_booster(parties), pooled(params, X, info, 3, earlier))


class Lost:
    """A party that is lost from one request on."""

    def __init__(self, party, at):
        self.party, self.name, self.left = party, party.name, at

    def handle(self, request):
        self.left -= 1
        if self.left <= 0:
            raise PartyUnavailableError("lost")
        return self.party.handle(request)


@pytest.mark.parametrize(
    ("samples", "step"),
    [pytest.param({}, 5, marks=pytest.mark.slow), ({"subsample": 0.7, "colsample_bytree": 0.8}, 9)],
    ids=["", "samples"],
)
def test_a_forest_that_is_interrupted_goes_on_with_the_same_pairs(tmp_path, samples, step):
    (X, info), params = ranked(), {**PARAMS, "seed": 3, "num_parallel_tree": 3, **samples}
    (party,), data = parties_of([X[:, 2:]]), xgb_fed.ActiveData(X[:, :2], **info)
    whole = train_on(data, params, [party], 2)
    n_kept = set()
    for at in range(4, 40, step):
        folder = tmp_path / str(at)
        try:
            train_on(data, params, [Lost(party, at)], 2, checkpoint=folder)
        except PartyUnavailableError:
            resumed = train_on(data, params, [party], 2, checkpoint=folder)
            assert resumed.trees == whole.trees, at
            n_kept.add(at)
    assert len(n_kept) >= 4

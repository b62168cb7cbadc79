"""Exact training: the trees are those of XGBoost on pooled rows, and nobody can make the parties differ."""

import json
import warnings

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_parties.errors import InvalidDataError, PartyRefusedError
from native_trees import read_trees
from vertical_training import assert_same_tree
from xgb_fed import ExactTerms, HorizontalParty, train_exact
from xgb_fed.horizontal.exact.cuts import rows_of_cuts
from xgb_fed.horizontal.exact.training import ExactTraining

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")

N = 900
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 4)).astype(np.float32)
X[:, 1] = np.round(2 * X[:, 1])
X[RNG.random(X.shape) < 0.1] = np.nan
MARGIN = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) * np.nan_to_num(X[:, 2])
LABELS = {
    "binary:logistic": (MARGIN + RNG.normal(size=N) > 0).astype(int),
    "multi:softprob": np.digitize(MARGIN, [-0.5, 0.5]),
    "multi:softmax": np.digitize(MARGIN, [-0.5, 0.5]),
    "reg:squarederror": (100 * MARGIN).astype(np.float32),
    "count:poisson": RNG.poisson(np.exp(MARGIN / 2)).astype(np.float32),
}
WEIGHT = RNG.uniform(0.5, 3, N).astype(np.float32)
THREE = np.array_split(RNG.permutation(N), 3)


def split_rows(y, parts, weight=None):
    return [(X[rows], y[rows], None if weight is None else weight[rows]) for rows in parts]


def pooled(model, params, y, weight, n_rounds, X=X):
    """Stock XGBoost on all rows in one place, with the same cuts and base score."""
    rows = rows_of_cuts(model.cuts)
    max_bin = len(rows) + 1
    reference = xgboost.QuantileDMatrix(rows, max_bin=max_bin)
    data = xgboost.QuantileDMatrix(X, label=y, weight=weight, ref=reference, max_bin=max_bin)
    own = {**params, "tree_method": "hist", "max_bin": max_bin, "nthread": 1, "verbosity": 0}
    if params["objective"].startswith("multi:"):
        own["num_class"] = int(y.max()) + 1
    return xgboost.train(own, data, n_rounds)


def assert_equal_trees(booster, other):
    ours, theirs = read_trees(booster), read_trees(other)
    assert len(ours) == len(theirs)
    for one, two in zip(ours, theirs, strict=True):
        for name in ("left_children", "right_children", "split_indices", "default_left"):
            assert one[name] == two[name]
        for name in ("split_conditions", "loss_changes", "sum_hessian"):
            assert np.allclose(one[name], two[name], rtol=1e-4, atol=1e-5), name


@pytest.mark.parametrize(
    ("objective", "parts", "weight", "others"),
    [
        ("binary:logistic", THREE, None, {}),
        (
            "binary:logistic",
            [*THREE[:1], np.concatenate(THREE[1:])],
            WEIGHT,
            {"reg_alpha": 0.3, "gamma": 0.2},
        ),
        ("multi:softprob", THREE, WEIGHT, {"base_score": 0.5}),
        ("multi:softmax", THREE, WEIGHT, {"base_score": 0.5}),
        ("reg:squarederror", THREE, WEIGHT, {"max_delta_step": 40}),
        ("count:poisson", THREE, None, {}),
        ("count:poisson", THREE, WEIGHT, {"max_delta_step": 2, "base_score": 1.5}),
    ],
)
def test_trees_are_those_of_pooled_rows(objective, parts, weight, others):
    y = LABELS[objective]
    params = {"objective": objective, "max_depth": 4, "max_bin": 24, **others}
    model = train_exact(params, split_rows(y, parts, weight), 4, cuts="exact", min_rows_per_node=1)
    assert_equal_trees(model.booster, pooled(model, params, y, weight, 4))


FEW = np.array_split(np.random.default_rng(1).permutation(240), 3)


@pytest.mark.parametrize(
    ("objective", "others"),
    [
        ("reg:squarederror", {"reg_alpha": 30.0}),
        ("binary:logistic", {"reg_alpha": 0.5, "max_delta_step": 0.3}),
        ("count:poisson", {"reg_alpha": 0.5}),
        ("count:poisson", {"reg_alpha": 2.0, "reg_lambda": 0.0, "max_delta_step": 0.1, "learning_rate": 1.0}),
        ("binary:logistic", {"reg_lambda": 0.0}),
        ("binary:logistic", {"reg_lambda": 0.0, "max_delta_step": 0.4, "min_child_weight": 0.1}),
        ("reg:squarederror", {"min_child_weight": 40.0, "gamma": 50.0}),
        # Lighter than min_child_weight as a whole: versions of XGBoost differ in what such a root weighs.
        ("binary:logistic", {"min_child_weight": 1000.0}),
        ("multi:softprob", {"reg_alpha": 0.4, "gamma": 0.3}),
        ("multi:softmax", {"max_delta_step": 0.2, "min_child_weight": 5.0, "reg_lambda": 10.0}),
        ("binary:logistic", {"max_depth": 9, "min_child_weight": 0.0, "max_bin": 60}),
        ("binary:logistic", {"scale_pos_weight": 3.0, "reg_alpha": 1.0, "max_bin": 2}),
        ("reg:squarederror", {"max_delta_step": 5.0, "reg_alpha": 10.0, "max_depth": 8}),
    ],
    ids=str,
)
def test_gains_and_weights_are_those_of_the_installed_version(objective, others):
    """Every split and every leaf to the last digits, where the versions of XGBoost compute in other steps."""
    y = LABELS[objective]
    params = {"objective": objective, "max_depth": 4, "max_bin": 16, "base_score": 0.5, **others}
    model = train_exact(params, split_rows(y, FEW, WEIGHT), 2, cuts="exact", min_rows_per_node=1)
    theirs = pooled(model, params, y[:240], WEIGHT[:240], 2, X[:240])
    for number, pair in enumerate(zip(read_trees(model.booster), read_trees(theirs), strict=True)):
        assert_same_tree(*pair, f"tree {number}")


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob", "reg:squarederror"])
@pytest.mark.parametrize(
    "factor", [1e-18, *(pytest.param(one, marks=pytest.mark.slow) for one in (1e-12, 1e-25))]
)
def test_trees_do_not_depend_on_the_size_of_all_weights(objective, factor):
    """Weights of 1e-18 left 20 binary digits of gradients, and for classes seemed to have grown."""
    y, weight = LABELS[objective], (factor * WEIGHT).astype(np.float32)
    params = {"objective": objective, "max_depth": 4, "max_bin": 16}
    params |= {"reg_lambda": 0.0, "min_child_weight": 0.0}
    params |= {"base_score": 0.5} if objective == "multi:softprob" else {}
    held_out = (X[300:400], y[300:400], weight[300:400])
    members = [
        HorizontalParty(
            X[rows],
            y[rows],
            f"p{k}",
            sample_weight=weight[rows],
            categorical_labels=objective != "reg:squarederror",
            exact=ExactTerms(min_rows_per_node=1, cuts=("exact",), held_out=[held_out] if k == 0 else ()),
        )
        for k, rows in enumerate(FEW)
    ]
    model = train_exact(params, members, 2, cuts="exact", min_rows_per_node=1, verbose_eval=False)
    theirs = pooled(model, params, y[:240], weight[:240], 2, X[:240])
    ((name, losses),) = next(iter(model.evals_result.values())).items()
    data = xgboost.DMatrix(held_out[0], label=held_out[1], weight=1e12 * WEIGHT[300:400])
    theirs.set_param("eval_metric", name)
    assert losses[-1] == pytest.approx(float(theirs.eval(data).rpartition(":")[2]), rel=1e-4)
    for number, pair in enumerate(zip(read_trees(model.booster), read_trees(theirs), strict=True)):
        assert_same_tree(*pair, f"tree {number}")


def test_trees_of_classes_are_those_without_rows_of_weight_0():
    """XGBoost gives such rows hessians of 1e-16, and other splits where they alone have missing values."""
    y, weight = LABELS["multi:softprob"][:240], (WEIGHT[:240] > 1.5).astype(np.float32)
    rows = np.round(X[:240])
    rows[weight == 0, 0] = np.nan
    params = {"objective": "multi:softprob", "max_depth": 4, "max_bin": 16, "base_score": 0.5}
    members = [(rows[part], y[part], weight[part]) for part in FEW]
    model = train_exact(params, members, 3, cuts="exact", min_rows_per_node=1)
    kept = weight > 0
    theirs = pooled(model, params, y[kept], weight[kept], 3, rows[kept])
    for number, pair in enumerate(zip(read_trees(model.booster), read_trees(theirs), strict=True)):
        assert_same_tree(*pair, f"tree {number}")


def test_a_sample_s_tree_is_that_of_its_rows(monkeypatch):
    """Rows are drawn by each party, in its own way; on what was drawn, the tree is XGBoost's."""
    y, drawn = LABELS["binary:logistic"], []

    def first_rows(self, *_):
        drawn.append(np.arange(len(self.rows.y)) % 5 < 3)
        return drawn[-1]

    monkeypatch.setattr(ExactTraining, "drawn", first_rows)
    params = {"objective": "binary:logistic", "max_depth": 5, "max_bin": 16, "reg_alpha": 0.4}
    params |= {"base_score": 0.5, "subsample": 0.6}
    model = train_exact(params, split_rows(y, FEW), 1, min_rows_per_node=1)
    weight = np.zeros(N, dtype=np.float32)
    for rows, own in zip(FEW, drawn, strict=False):
        weight[rows[own]] = 1
    theirs = pooled(model, {**params, "subsample": 1}, y, weight, 1)
    assert_same_tree(read_trees(model.booster)[0], read_trees(theirs)[0])


@pytest.mark.parametrize("columns", [[0], [0, 1, 2, 3]], ids=["one", "all"])
def test_columns_without_any_value(columns):
    """Before, the search for cuts asked about no cells of no column, and ended in an internal error."""
    rows, y = X[:90].copy(), LABELS["binary:logistic"][:90]
    rows[:, columns] = np.nan
    params = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16, "base_score": 0.5}
    members = [(rows[:40], y[:40]), (rows[40:], y[40:])]
    model = train_exact(params, members, 2, cuts="exact", min_rows_per_node=1)
    assert_equal_trees(model.booster, pooled(model, params, y, None, 2, rows))
    assert [len(own) == 0 for own in model.cuts] == [f in columns for f in range(4)]


def test_one_label_per_party():
    y = LABELS["binary:logistic"]
    params = {"objective": "binary:logistic", "max_depth": 3}
    parts = [np.flatnonzero(y == k) for k in (0, 1)]
    model = train_exact(params, split_rows(y, parts), 3, min_rows_per_node=1)
    assert_equal_trees(model.booster, pooled(model, params, y, None, 3))


def test_every_party_has_the_model_whoever_holds_which_rows():
    y = LABELS["binary:logistic"]
    params = {"objective": "binary:logistic", "max_depth": 3}
    members = [
        HorizontalParty(X[rows], y[rows], f"bank{k}", categorical_labels=True) for k, rows in enumerate(THREE)
    ]
    model = train_exact(params, members, 3)
    texts = {bytes(member.get_booster().save_raw("json")) for member in members}
    assert texts == {bytes(model.booster.save_raw("json"))}
    two = train_exact(params, split_rows(y, np.array_split(np.arange(N), 2)), 3)
    assert bytes(two.booster.save_raw("json")) in texts


def test_nodes_keep_a_minimum_of_rows():
    y = LABELS["binary:logistic"]
    params = {"objective": "binary:logistic", "max_depth": 6, "min_child_weight": 0}
    model = train_exact(params, split_rows(y, THREE), 3, min_rows_per_node=25)
    leaves = model.booster.predict(xgboost.DMatrix(X), pred_leaf=True)
    for tree in leaves.T:
        assert np.unique(tree, return_counts=True)[1].min() >= 25
    assert max(len(np.unique(tree)) for tree in leaves.T) > 8


def test_given_cuts_are_kept():
    y = LABELS["reg:squarederror"]
    cuts = [[-1, 0, 1], [-2, 0, 2], [-0.5, 0.25], [0]]
    model = train_exact({"max_depth": 3}, split_rows(y, THREE), 3, cuts=cuts)
    trees = read_trees(model.booster)
    used = {
        (f, c)
        for tree in trees
        for f, c, left in zip(
            tree["split_indices"], tree["split_conditions"], tree["left_children"], strict=True
        )
        if left != -1
    }
    # A split may also be beyond all cuts: values go to one side and missing ones to the other.
    for f, threshold in used:
        beyond = [cuts[f][0] - abs(cuts[f][0]) - 1e-5, cuts[f][-1] + abs(cuts[f][-1]) + 1e-5]
        assert np.isclose(threshold, cuts[f] + beyond, rtol=1e-6, atol=0).any()
    assert [own.tolist() for own in model.cuts] == cuts


def test_cuts_on_the_grid_are_nobodys_values():
    y = LABELS["binary:logistic"]
    model = train_exact({"objective": "binary:logistic", "max_bin": 8}, split_rows(y, THREE), 1)
    values = np.sort(X[~np.isnan(X[:, 0]), 0])
    expected = values[np.round(np.linspace(0, len(values) - 1, 8)).astype(int)]
    assert not np.isin(model.cuts[0], X[:, 0]).any()
    assert np.allclose(model.cuts[0], expected, rtol=2.0**-11)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (1e9, ""),
        (1e12, "losses of this party's rows are larger"),
        (1e15, "losses of this party's rows are larger"),
        (1e18, "weights are so small"),
        (1e27, "weights are so small"),
    ],
)
def test_labels_and_weights_of_very_different_sizes_have_right_metrics_or_none(size, text):
    """Losses that no sum holds lost their first digits, and tiny weights their last ones."""
    y = (size * MARGIN).astype(np.float32)
    weight = np.full(N, 1 / size, dtype=np.float32)
    params = {"objective": "reg:squarederror", "min_child_weight": 0, "max_depth": 3}
    held_out = split_rows(y, [rows + 240 for rows in FEW], weight)
    members = [
        HorizontalParty(
            X[rows], y[rows], f"p{k}", sample_weight=weight[rows], exact=ExactTerms(held_out=[own])
        )
        for k, (rows, own) in enumerate(zip(FEW, held_out, strict=True))
    ]
    if text:
        with pytest.raises(PartyRefusedError, match=text):
            train_exact(params, members, 2, verbose_eval=False)
        return
    model = train_exact(params, members, 2, verbose_eval=False)
    errors = model.booster.predict(xgboost.DMatrix(X[240:480])).astype(float) - y[240:480]
    expected = np.sqrt(np.mean(errors**2))
    assert model.evals_result["validation_0"]["rmse"][-1] == pytest.approx(expected, rel=1e-6)


def test_early_stopping_on_held_out_rows_of_several_parties():
    y = LABELS["binary:logistic"]
    params = {"objective": "binary:logistic", "max_depth": 5, "eval_metric": ["error", "logloss"]}
    held_out = [(X[600:700], y[600:700], WEIGHT[600:700]), (X[700:], y[700:], WEIGHT[700:])]
    members = [
        HorizontalParty(
            X[k : k + 300],
            y[k : k + 300],
            f"bank{k}",
            categorical_labels=True,
            exact=ExactTerms(held_out=[rows]),
        )
        for k, rows in zip((0, 300), held_out, strict=True)
    ]
    model = train_exact(params, members, 40, early_stopping_rounds=2, verbose_eval=False)
    scores = model.evals_result["validation_0"]["logloss"]
    assert model.best_iteration == int(np.argmin(scores)) == len(scores) - 3
    assert model.best_score == min(scores)
    data = xgboost.DMatrix(X[600:], label=y[600:], weight=WEIGHT[600:])
    p = model.booster.predict(data, iteration_range=(0, model.best_iteration + 1)).astype(float)
    losses = -np.log(np.where(y[600:] == 1, p, 1 - p))
    assert np.isclose(model.best_score, np.average(losses, weights=WEIGHT[600:]), rtol=1e-5)


@pytest.mark.parametrize(
    ("objective", "metrics"),
    [("count:poisson", ["rmse", "mae", "poisson-nloglik"]), ("multi:softmax", ["merror", "mlogloss"])],
)
def test_metrics_are_those_of_xgboost(objective, metrics):
    y = LABELS[objective]
    params = {"objective": objective, "max_depth": 3, "eval_metric": metrics}
    model = train_exact(params, split_rows(y, THREE), 3, evals=[((X[:99], y[:99]), "v")], verbose_eval=False)
    model.booster.set_param([("eval_metric", metric) for metric in metrics])
    text = model.booster.eval(xgboost.DMatrix(X[:99], label=y[:99]))
    theirs = {
        part.split(":")[0].removeprefix("eval-"): float(part.split(":")[1]) for part in text.split()[1:]
    }
    assert list(theirs) == metrics
    for metric, value in theirs.items():
        assert np.isclose(model.evals_result["validation_0"][metric][-1], value, rtol=1e-4), metric


def test_sampled_rows_and_columns():
    y = LABELS["binary:logistic"]
    params = {"objective": "binary:logistic", "max_depth": 2, "subsample": 0.5, "colsample_bytree": 0.5}
    model = train_exact(params, split_rows(y, THREE), 6, random_state=3)
    for tree in read_trees(model.booster):
        used = {f for f, n in zip(tree["split_indices"], tree["left_children"], strict=True) if n != -1}
        assert len(used) <= 2
    # Every row weighs 1/4 at the start, at the mean label nearly so.
    assert 0.4 < read_trees(model.booster)[0]["sum_hessian"][0] / (N / 4) < 0.6


def test_estimators_train_so_by_default():
    y = LABELS["multi:softprob"]
    names = np.array(["low", "middle", "high"])[y]
    model = xgb_fed.HorizontalXGBClassifier(8, max_depth=3, early_stopping_rounds=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(parties=split_rows(names, THREE), eval_set=[(X[:100], names[:100])])
    assert model.score(X, names) > 0.8
    assert len(model.evals_result()["validation_0"]["mlogloss"]) <= 8
    regressor = xgb_fed.HorizontalXGBRegressor(8, max_depth=3).fit(
        parties=split_rows(LABELS["reg:squarederror"], THREE)
    )
    assert regressor.score(X, LABELS["reg:squarederror"]) > 0.3


def test_two_parties_are_warned():
    y = LABELS["binary:logistic"]
    with pytest.warns(xgb_fed.FewPartiesWarning, match="learns the other's"):
        train_exact({"objective": "binary:logistic"}, split_rows(y, THREE[:2]), 1)


@pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
@pytest.mark.parametrize("train", [train_exact, xgb_fed.train_simfl])
def test_a_party_that_codes_its_labels_otherwise_is_named_and_nothing_is_trained(train):
    """Before, all parties silently trained a model of three classes."""
    labels = LABELS["binary:logistic"]
    parties = [
        HorizontalParty(X[k::3], labels[k::3] + (k == 2), name, categorical_labels=True, n_jobs=1)
        for k, name in enumerate(("ada", "bob", "cyd"))
    ]
    told = r"'ada' has \[0, 1\], 'bob' has \[0, 1\], 'cyd' has \[1, 2\]"
    for objective in ("binary:logistic", "auto"):
        with pytest.raises(InvalidDataError, match=told):
            train({"objective": objective}, parties, 2)
    for party in parties:
        with pytest.raises(xgb_fed.InvalidArgumentError):
            party.get_booster()


def test_classes_choose_the_objective_of_an_estimator():
    for name in ("binary:logistic", "multi:softprob"):
        parties = [(X[k::3], LABELS[name][k::3]) for k in range(3)]
        model = xgb_fed.HorizontalXGBClassifier(2, max_depth=2).fit(parties=parties)
        config = json.loads(model.get_booster().save_config())
        assert config["learner"]["objective"]["name"] == name

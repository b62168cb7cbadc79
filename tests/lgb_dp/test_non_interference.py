"""With all releases pinned, nothing that anyone can see depends on the private rows.

Two unrelated private data sets with the same public facts, and different numbers of rows, go through every
trainer, option and entry point, while the three release functions return a fixed sequence of numbers.  All
that comes out must be the same to the byte: model text, dump, pickle, report, warnings, log, printed output,
errors, and the mechanism, shape and scale of every release.  What differs came from the rows by a way around
the releases: it is a leak.

The random words are pinned, too.  Some calls draw one word per row (the trees of `DPBoost`, a secret sample,
folds, the search's split), so how much of a stream they use up depends on the number of rows.  That is not a
leak: the operating system gives the key, and what is left of the stream is as uniform and as secret as
before.  `PinnedRandom` therefore gives every call a stream of its own; the *number* of calls must agree.

Not covered: metrics on private rows (the report says so), how long a call takes, and errors that name the
lengths of two arguments that do not fit together.
"""

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import lgb_dp
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.training import Training
from lgb_dp.data import dataset as dataset_module
from pinned_training import (
    BINARY,
    DELTA,
    MULTICLASS,
    PUBLIC_X,
    PUBLIC_Y,
    REGRESSION,
    TRAINERS,
    a_cell,
    a_number,
    dataset,
    newton,
    train,
)
from pinned_world import BOUNDS, CITIES, LABEL_BOUNDS, NAMES, TABLE, differences

SETTINGS = {
    "random structure": newton(structure="random"),
    "cyclic structure": newton(structure="cyclic"),
    "secret sample": newton(subsample=0.5),
    "hessian share": newton(hessian_share=0.3, gradient_clip=1.0),
    "no ensembles": lgb_dp.DPBoost(2.0, eoe=False, gdf=False),
    "two ensembles": lgb_dp.DPBoost(2.0, trees_per_ensemble=2),
    "noised leverage": lgb_dp.MBoost(2.0, leverage="noised"),
    "public count": lgb_dp.MBoost(2.0, n_rows=100, alpha=0.5),
}


@pytest.mark.parametrize(("trainer", "params"), [(t, p) for t, (_, ps) in TRAINERS.items() for p in ps])
def test_trainers(assert_nothing_differs, trainer, params):
    assert_nothing_differs(lambda world: [train(world, TRAINERS[trainer][0](), params)])


@pytest.mark.parametrize("objective", ["poisson", "gamma", "tweedie", "quantile", "huber", "regression_l1"])
def test_other_objectives_of_regression(assert_nothing_differs, objective):
    """Prior, clip and threshold follow from the released label counts alone."""

    def call(world):
        label = {"bounds": BOUNDS, "label_bounds": (0.05, 6.0), "max_bin": 8, "label_overflow": "clip"}
        data = lgb_dp.Dataset(world.X, np.abs(world.number), **label)
        return [train(world, newton(), {"objective": objective}, data=data)]

    assert_nothing_differs(call)


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings_of_trainers(monkeypatch, assert_nothing_differs, setting):
    if setting == "secret sample":  # accounting of seconds, of public arguments
        monkeypatch.setattr("lgb_dp.newton.budget_plan.sampled_mu", lambda *args: 0.1)
        monkeypatch.setattr("lgb_dp.accounting.cost.composed_epsilon", lambda mu, sampled, delta: 1.0)
    assert_nothing_differs(lambda world: [train(world, SETTINGS[setting])])


def test_automatic_settings_and_learned_splits(assert_nothing_differs):
    """Depth, rate and the trees' splits follow from what was released, over rounds enough to follow it."""

    def call(world):
        data = dataset(world, max_bin=4)
        params = {"objective": "binary", "verbosity": 1}
        return [lgb.train(params, data, 80, callbacks=[lgb_dp.NewtonBoost(8.0, DELTA)])]

    assert_nothing_differs(call)


@pytest.mark.parametrize("kind", ["plain", "multiclass", "sparse", "secret sample", "table"])
def test_distilled_splits(monkeypatch, assert_nothing_differs, kind):
    """Surrogate rows, and all that a greedy tree sees there, follow from what was released."""
    monkeypatch.setattr("lgb_dp.newton.core.distilled_depth", lambda *facts: (3, True))
    monkeypatch.setattr("lgb_dp.newton.splits.distilled.N_SURROGATE_ROWS", 300)
    monkeypatch.setattr("lgb_dp.newton.budget_plan.sampled_mu", lambda *args: 0.1)
    if kind == "secret sample":
        monkeypatch.setattr("lgb_dp.accounting.cost.composed_epsilon", lambda mu, sampled, delta: 1.0)

    def call(world):
        params = MULTICLASS if kind == "multiclass" else BINARY
        trainer = newton(subsample=0.5 if kind == "secret sample" else 1.0)
        settings, X = (TABLE, world.table) if kind == "table" else ({}, world.sparse)
        data = dataset(world, params, *([X] if kind in ("sparse", "table") else []), **settings)
        live = train(world, trainer, params, 12, data=data, keep_training_booster=True)
        yield live
        live.rollback_one_iter()
        yield live
        if kind == "plain":
            yield train(world, newton(), params, 8, init_model=live)

    assert_nothing_differs(call)


INPUTS = {
    "weights": lambda w: ({"weight": w.weight, "weight_bound": 2.0}, None),
    "missing": lambda w: ({}, w.with_missing),
    "sparse": lambda w: ({}, w.sparse),
    "data frame": lambda w: (
        {"bounds": dict.fromkeys(NAMES, BOUNDS), "categories": {"city": CITIES}},
        w.frame,
    ),
    "nullable columns": lambda w: (TABLE, w.table),
    "objects": lambda w: (TABLE, w.table.astype({"city": object})),
    "arrow columns": lambda w: (TABLE, w.table.convert_dtypes(dtype_backend="pyarrow")),
    "polars": lambda w: (TABLE, pl.from_pandas(w.table)),
    "enum of polars": lambda w: (
        {**TABLE, "categories": "dtype"},
        pl.from_pandas(w.table).with_columns(pl.col("city").cast(pl.Enum(CITIES))),
    ),
    "pyarrow": lambda w: (TABLE, pl.from_pandas(w.table).to_arrow()),
    "unknown categories": lambda w: (
        {**TABLE, "categories": {"city": ["Oslo"]}},
        w.table.astype({"city": object}).assign(city=a_cell(w.city, [w.secret])),
    ),
    "categories": lambda w: (
        {"bounds": {0: BOUNDS, 2: BOUNDS, 3: BOUNDS}, "categories": {1: [0.0, 1.0, 2.0]}},
        np.column_stack([w.X[:, 0], w.kind, w.X[:, 2:]]),
    ),
    "mixed bins": lambda w: ({"max_bin": 40, "spacing": "mixed"}, None),
    "edges": lambda w: ({"bin_edges": {0: [-0.5, 0.0, 0.7]}}, None),
    "outside the bounds": lambda w: ({"bounds": (-0.3, 0.3)}, None),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("trainer", ["NewtonBoost", "DPBoost tight"])
def test_inputs(assert_nothing_differs, kind, trainer):
    def call(world):
        settings, X = INPUTS[kind](world)
        return [train(world, TRAINERS[trainer][0](), X=X, settings=settings)]

    assert_nothing_differs(call)


@pytest.mark.parametrize("kind", ["nullable columns", "polars", "pyarrow"])
def test_tables_everywhere(assert_nothing_differs, kind):
    """Rows, labels, weights and persons in columns, of which only one world has missing labels."""

    def call(world):
        settings, X = INPUTS[kind](world)
        truth = pd.Series(world.binary > 0, dtype="boolean")
        label = truth.mask(pd.Series(np.arange(len(world.X)) % 5 == 0)) if len(world.X) % 2 else truth
        of_rows = {"sample_weight": world.weight, "groups": world.person}
        if kind != "nullable columns":
            label, of_rows = pl.from_pandas(label), {name: pl.Series(v) for name, v in of_rows.items()}
        if kind == "pyarrow":
            label, of_rows = label.to_arrow(), {name: v.to_arrow() for name, v in of_rows.items()}
        declared = {**settings, "weight_bound": 2.0, "rows_per_group": 3}
        yield lgb_dp.DPLGBMClassifier(n_estimators=4).fit(X, label, **of_rows, **declared)

    assert_nothing_differs(call)


@pytest.mark.parametrize("trainer", ["DPBoost paper", "MBoost", "RandomForestLaplace"])
def test_weights_of_other_trainers(assert_nothing_differs, trainer):
    settings = {"weight_bound": 2.0}
    assert_nothing_differs(
        lambda world: [train(world, TRAINERS[trainer][0](), settings={"weight": world.weight, **settings})]
    )


@pytest.mark.parametrize("trainer", ["NewtonBoost", "DPBoost tight", "MBoost"])
def test_callbacks_on_public_rows(assert_nothing_differs, trainer):
    """Early stopping, evaluation and logs may follow from public rows and the released model."""

    def call(world):
        data, history = dataset(world), {}
        valid = data.create_valid(PUBLIC_X, PUBLIC_Y, public=True)
        follow = [lgb.early_stopping(2), lgb.log_evaluation(1), lgb.record_evaluation(history)]
        follow.append(lgb.reset_parameter(learning_rate=lambda i: 0.3 * 0.9**i))
        model = train(
            world, TRAINERS[trainer][0](), data=data, valid_sets=[valid], callbacks=follow, n_rounds=8
        )
        return [model, history, model.predict(PUBLIC_X), model.predict(PUBLIC_X, pred_contrib=True)]

    assert_nothing_differs(call)


@pytest.mark.parametrize("trainer", ["NewtonBoost", "DPBoost tight", "MBoost", "RandomForestLaplace"])
def test_interrupts_and_rollback(assert_nothing_differs, trainer):
    class StopError(Exception):
        pass

    def stop(env):
        if env.iteration == 2:
            raise StopError

    def call(world):
        private = TRAINERS[trainer][0]()
        with pytest.raises(StopError):
            train(world, private, callbacks=[stop])
        yield private.booster_
        live = train(world, TRAINERS[trainer][0](), keep_training_booster=True)
        live.rollback_one_iter()
        yield live
        yield live.predict(PUBLIC_X)

    assert_nothing_differs(call)


@pytest.mark.parametrize("trainer", ["NewtonBoost", "DPBoost tight"])
def test_continued_training(assert_nothing_differs, trainer):
    def call(world):
        first = train(world, TRAINERS[trainer][0]())
        yield train(world, TRAINERS[trainer][0](), init_model=first)
        yield lgb_dp.compose(first.privacy, first.privacy)

    assert_nothing_differs(call)


def test_cross_validation(assert_nothing_differs):
    """Models and reports; metrics on the private test folds are not covered, and the report says so."""

    def call(world):
        data = dataset(world)
        result = lgb.cv(
            {"max_depth": 2, "verbosity": 1, **BINARY},
            data,
            3,
            folds=lgb_dp.folds(3, data),
            callbacks=[newton()],
            return_cvbooster=True,
        )
        return result["cvbooster"].boosters

    assert_nothing_differs(call)


@pytest.mark.parametrize("settings", [{}, {"public_init_score": True}])
def test_initial_scores(assert_nothing_differs, settings):
    """Scores that are functions of each row; the report depends on what was declared alone."""
    assert_nothing_differs(
        lambda world: [train(world, newton(), settings={"init_score": 0.3 * world.X[:, 0], **settings})]
    )


def test_labels_beyond_the_bounds_are_clipped(assert_nothing_differs):
    def call(world):
        data = lgb_dp.Dataset(
            world.X,
            a_number(world.number, 3.7) if len(world.X) < 100 else world.number,
            bounds=BOUNDS,
            label_bounds=LABEL_BOUNDS,
            label_overflow="clip",
        )
        yield train(world, newton(), REGRESSION, data=data)
        y = world.kind if len(world.X) < 100 else world.binary
        yield lgb_dp.DPLGBMClassifier(n_estimators=3).fit(world.X, y, bounds=BOUNDS, classes=[0, 1])

    assert_nothing_differs(call)


@pytest.mark.parametrize("data", ["bounds", "dtype", "classes"])
def test_what_voids_the_guarantee_says_so_without_a_cell(assert_nothing_differs, data):
    """Undeclared facts show in the model, and the report is void; its text and the warnings stay the same."""

    def call(world):
        if data == "bounds":
            model = train(world, newton(), settings={"bounds": None})
        elif data == "dtype":
            model = train(world, newton(), X=world.frame, settings={"bounds": dict.fromkeys(NAMES, BOUNDS)})
        else:
            y = np.where(world.kind > 0, world.secret, world.secret + "'")
            model = lgb_dp.DPLGBMClassifier(n_estimators=3).fit(world.X, y, bounds=BOUNDS).booster_
        assert not model.privacy.private
        return [model.privacy]

    assert_nothing_differs(call)


# What the harness must find.


def with_a_leak_into_bins(patch):
    honest = dataset_module.public_bins

    def public_bins(data, names, bounds, *rest):
        return honest(data, names, (float(np.min(data)), 1.0), *rest)

    patch.setattr(dataset_module, "public_bins", public_bins)


def with_a_leak_into_the_report(patch):
    honest = Training.report

    def report(self):
        self.notes.append(f"trained on {self.data.num_data()} rows")
        return honest(self)

    patch.setattr(Training, "report", report)


def with_a_leak_into_the_log(patch):
    honest = Training.grow

    def grow(self):
        honest(self)
        lgb.basic._log_info(f"mean label {self.data.label.mean()}")

    patch.setattr(Training, "grow", grow)


def with_a_leak_into_the_pickle(patch):
    honest, begin = DPBooster.__getstate__, Training.__init__
    seen = []

    def __init__(self, *args, **keywords):
        begin(self, *args, **keywords)
        seen.append(self.data.label.sum())

    patch.setattr(Training, "__init__", __init__)
    patch.setattr(DPBooster, "__getstate__", lambda self: {**honest(self), "_label_sum": seen[-1]})


def with_a_leak_into_an_error(patch):
    def construct(self):
        raise ValueError(f"label begins with {self.label[:3]} and has {len(self.label)} rows")

    patch.setattr(lgb_dp.Dataset, "construct", construct)


@pytest.mark.parametrize(
    ("leak", "place"),
    [
        (with_a_leak_into_bins, "model"),
        (with_a_leak_into_the_report, "report text"),
        (with_a_leak_into_the_log, "output"),
        (with_a_leak_into_the_pickle, "pickle"),
        (with_a_leak_into_an_error, "error"),
    ],
)
def test_a_planted_leak_is_found(monkeypatch, capfd, leak, place):
    with monkeypatch.context() as patch:
        leak(patch)
        found, _ = differences(lambda world: [train(world, newton())], monkeypatch, capfd)
    assert any(place in what for what in found), found

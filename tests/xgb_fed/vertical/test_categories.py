"""Categorical columns: the trees are those of stock XGBoost, and the checks of the protocol cover them."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn.base
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

import xgb_fed
from categorical_columns import BASE, fitted, frames
from gbdt_commons.errors import StoreError
from gbdt_parties import messages
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.run.log import RunLog
from kept_splits import splits_of
from kept_stores import restarted
from native_trees import read_trees
from random_configurations import assert_same
from vertical_training import Recorder, text_of, train
from xgb_fed.errors import CorruptDataError, UnsupportedParameterError
from xgb_fed.vertical.growing import row_places
from xgb_fed.vertical.growing.bin_sums import AgreedColumns
from xgb_fed.vertical.growing.row_places import RowPlaces
from xgb_fed.vertical.passive.journal import FOUND, Journals, ResumptionTerms
from xgb_fed.vertical.protocol.messages import (
    CategoriesOpened,
    RevealedCategories,
    SplitCategories,
    SplitNodes,
    StartTree,
    TrainingOpened,
)
from xgb_fed.vertical.protocol.splits import NamedSplit, Splits

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


def drawn(seed):
    """A problem with categorical and numeric columns, its parameters, and where parties' columns begin."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(30, 400)), int(rng.integers(2, 6))
    is_categorical = rng.random(d) < 0.7
    is_categorical[rng.integers(d)] = True
    X, score = np.empty((n, d), dtype=np.float32), rng.normal(size=n)
    for k in range(d):
        if is_categorical[k]:
            codes = rng.integers(0, rng.integers(1, rng.choice([4, 12, 90])), n) * rng.integers(1, 3)
            X[:, k], effect = codes, rng.normal(size=200)[codes]
        else:
            X[:, k] = effect = rng.normal(size=n) if rng.random() < 0.5 else rng.integers(0, 5, n)
        score += effect
    if rng.random() < 0.6:
        X[rng.random(X.shape) < rng.choice([0.05, 0.3, 0.7])] = np.nan
    if rng.random() < 0.2:  # equal gains
        X[:, -1], is_categorical[-1] = X[:, 0], is_categorical[0]
    objective = rng.choice(["binary:logistic", "reg:squarederror", "multi:softprob"])
    y = {
        "binary:logistic": score > np.median(score),
        "reg:squarederror": np.round(score),
        "multi:softprob": np.searchsorted(np.quantile(score, [0.3, 0.7]), score),
    }[str(objective)].astype(np.float32)
    params = {
        "objective": str(objective),
        "max_depth": int(rng.integers(1, 6)),
        "max_bin": int(rng.choice([4, 256])),
        "max_cat_to_onehot": int(rng.choice([1, 2, 4, 10, 100])),
        "max_cat_threshold": int(rng.choice([1, 2, 3, 8, 64])),
        "reg_lambda": float(rng.choice([0.5, 1, 10])),
        "reg_alpha": float(rng.choice([0, 0, 0.5, 3])),
        "min_child_weight": float(rng.choice([0.1, 1, 5])),
        "max_delta_step": float(rng.choice([0, 0, 0.7])),
        "gamma": float(rng.choice([1e-3, 0.5])),
    }
    if objective == "multi:softprob":
        params["num_class"] = 3
    weight = rng.exponential(size=n).astype(np.float32) if rng.random() < 0.4 else None
    bounds = sorted(rng.choice(d + 1, size=int(rng.integers(0, 3)), replace=False).tolist())
    types = ["c" if one else "q" for one in is_categorical]
    return SimpleNamespace(X=X, y=y, params=params, weight=weight, bounds=[0, *bounds, d], types=types)


def stock(problem, rounds):
    matrix = xgboost.QuantileDMatrix(
        problem.X,
        label=problem.y,
        max_bin=problem.params["max_bin"],
        feature_types=problem.types,
        enable_categorical=True,
    )
    if problem.weight is not None:
        matrix.set_weight(problem.weight)
    return xgboost.train({"nthread": 1, **problem.params}, matrix, rounds)


def federated(problem, rounds, **settings):
    """The model, its parties, and the slices of their columns."""
    spans = [slice(a, b) for a, b in zip(problem.bounds, problem.bounds[1:], strict=False) if b > a or a == 0]
    own, *others = [span for k, span in enumerate(spans) if k == 0 or span.stop > span.start]
    parties = [
        xgb_fed.LocalParty(
            problem.X[:, span], f"party {k}", allow_export=True, feature_types=problem.types[span]
        )
        for k, span in enumerate(others)
    ]
    params = {**problem.params, "enable_categorical": True, **settings}
    if own.stop:
        params["feature_types"] = problem.types[own]
    model = train(params, problem.X[:, own] if own.stop else None, problem.y, parties, rounds, problem.weight)
    return model, parties, own, others


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 24))]
)
def test_trees_and_predictions_are_those_of_xgboost(seed):
    """One-hot and partition splits; missing, unseen, invalid and fractional categories in other rows."""
    problem = drawn(seed)
    theirs = stock(problem, 2)
    model, parties, own, others = federated(problem, 2)
    exported = model.export_booster(parties)
    assert_same(exported, theirs)
    Z, rng = problem.X.copy(), np.random.default_rng(seed)
    for k, kind in enumerate(problem.types):
        if kind == "c":
            Z[:, k] = rng.choice([-3, -0.5, 0, 1, 2, 3, 4.7, 100, 7e4, 2e7, np.nan], len(Z))
    matrix = xgboost.DMatrix(Z, feature_types=problem.types, enable_categorical=True)
    margin = theirs.predict(matrix, output_margin=True)
    there = [party.with_rows(Z[:, span]) for party, span in zip(parties, others, strict=True)]
    got = model.predict(Z[:, own] if own.stop else None, there, output_margin=True)
    np.testing.assert_allclose(got, margin, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(exported.predict(matrix, output_margin=True), margin, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(100, 110))
def test_with_constraints_samples_and_shapes(seed):
    """What narrows candidates and rows narrows those of categories, too."""
    problem, rng = drawn(seed), np.random.default_rng(seed)
    d = problem.X.shape[1]
    own = [
        {"monotone_constraints": tuple(rng.integers(-1, 2, d).tolist())},
        {"interaction_constraints": str([[0, 1], list(range(1, d))])},
        {"grow_policy": "lossguide", "max_leaves": 6},
        {"subsample": 0.7, "colsample_bytree": 0.7, "seed": 3},
        {"num_parallel_tree": 2, "subsample": 0.7, "seed": 3},
    ]
    problem.params |= own[seed % 5]
    model, parties, *_ = federated(problem, 2)
    assert_same(model.export_booster(parties), stock(problem, 2))


def test_sparse_columns():
    """Entries that are not stored are missing, stored zeros are category 0."""
    rng = np.random.default_rng(5)
    X = rng.integers(0, 8, (200, 4)) * (rng.random((200, 4)) < 0.5)
    y = ((X[:, 0] % 3 == 1) + X[:, 2] + rng.normal(size=200) > 2).astype(np.float32)
    sparse = scipy.sparse.csr_matrix(X.astype(np.float32))
    sparse.data[::7] = 0
    types = ["c", "q", "c", "c"]
    problem = SimpleNamespace(X=sparse, y=y, params=BASE, weight=None, bounds=[0, 2, 4], types=types)
    model, parties, *_ = federated(problem, 2)
    assert_same(model.export_booster(parties), stock(problem, 2))


def test_data_frames_with_categories():
    own, theirs, y = frames()
    model, bank = fitted(own, theirs, y)
    exported = model.export_booster([bank])
    pooled = pd.concat([own, theirs], axis=1)
    codes = np.column_stack(
        [
            np.where(column.cat.codes < 0, np.nan, column.cat.codes) if column.dtype == "category" else column
            for _, column in pooled.items()
        ]
    )
    types = ["c", "q", "q", "c", "c"]
    assert_same(exported, stock(SimpleNamespace(X=codes, y=y, params=BASE, weight=None, types=types), 2))
    assert exported.feature_types == ["c", "float", "float", "c", "c"]
    assert exported.feature_names == list(pooled.columns)
    matrix = xgboost.DMatrix(codes, feature_names=list(pooled.columns), feature_types=exported.feature_types)
    np.testing.assert_allclose(exported.predict(matrix), model.predict(own, [bank]), rtol=1e-5)


def test_the_estimator_and_its_explanations():
    own, theirs, y = frames()
    bank = xgb_fed.LocalParty(
        theirs, "bank", enable_categorical=True, allow_export=True, allow_explanations="per-feature"
    )
    model = xgb_fed.VerticalXGBClassifier(
        2, max_depth=3, max_bin=16, enable_categorical=True, max_cat_threshold=8, cipher=xgb_fed.Plain()
    )
    model = sklearn.base.clone(model).fit(own, y, parties=[bank])
    codes = pd.concat([own, theirs], axis=1).apply(
        lambda column: column.cat.codes.replace(-1, np.nan) if column.dtype == "category" else column
    )
    booster = model.export_booster()
    matrix = xgboost.DMatrix(codes.to_numpy(), feature_names=list(codes), feature_types=booster.feature_types)
    expected = booster.predict(matrix, pred_contribs=True)
    np.testing.assert_allclose(model.explain(own).contributions, expected, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(own)[:, 1], booster.predict(matrix), rtol=1e-5)


def test_horizontal_training_refuses_categories_by_name():
    from xgb_fed.horizontal.common.model import horizontal_settings
    from xgb_fed.horizontal.exact.task import exact_settings

    for read in (horizontal_settings, exact_settings):
        for name, value in (("enable_categorical", True), ("max_cat_threshold", 8), ("feature_types", ["c"])):
            with pytest.raises(UnsupportedParameterError, match=f"{name}=.*vertical"):
                read({name: value})


@pytest.mark.parametrize("mode", ["mix", "layered"])
def test_other_tree_modes(mode):
    """Whoever grows a level splits categories as XGBoost does on its own columns."""
    own, theirs, y = frames()
    model, bank = fitted(own, theirs, y, tree_mode=mode)
    owners = [owner for tree in model.trees for owner in tree.owner]
    assert {0, 1} <= set(owners)
    booster = model.export_booster([bank])
    assert any(1 in tree["split_type"] for tree in read_trees(booster))


def test_encryption_changes_nothing():
    own, theirs, y = frames(80)
    params = {**BASE, "max_depth": 2, "enable_categorical": True}
    texts = []
    for cipher in (xgb_fed.Plain(), xgb_fed.Paillier(512, True)):
        bank = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True)
        texts.append(text_of(train(params, own, y, [bank], 1, cipher=cipher)))
        (splits,) = splits_of(bank)
        texts[-1] += str(splits)
    assert texts[0] == texts[1]


def test_models_and_splits_are_saved_with_their_categories(tmp_path):
    own, theirs, y = frames()
    model, bank = fitted(own, theirs, y)
    model.save(tmp_path)
    bank.save_model(tmp_path)
    again = xgb_fed.VerticalModel.load(tmp_path)
    fresh = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True)
    fresh.load_model(tmp_path)
    assert again.splits == model.splits
    assert splits_of(fresh) == splits_of(bank)
    np.testing.assert_array_equal(again.predict(own, [fresh]), model.predict(own, [bank]))
    assert any("not in {" in model.splits.condition(k) for k in model.splits.right)


@pytest.mark.parametrize(
    "change",
    [
        {"right": [[0, []]]},
        {"right": [[0, [2, 1]]]},
        {"right": [[0, [3]]]},
        {"right": [[0, [True]]]},
        {"right": []},
        {"right": [[0, [1]], [1, [1]]]},
        {"right": [[0, [1]], [7, [1]]]},
        {"categories": [[5, None]]},
        {"categories": [[0, [["a"]]]]},
        {"categories": [[0, None], [0, None]]},
    ],
    ids=str,
)
def test_files_with_other_categories_are_refused(change, tmp_path):
    splits = Splits(["a", "b"], categories={0: ("x", "y", "z")})
    splits.add(0, 0.0, True, (1,))
    splits.add(1, 0.5, False)
    assert Splits.from_dict(splits.to_dict()) == splits
    assert splits.first(1).right == {0: (1,)}
    with pytest.raises((ValueError, TypeError)):
        Splits.from_dict({**splits.to_dict(), **change})
    (tmp_path / "x").write_text(json.dumps({**splits.to_dict(), **change}))
    with pytest.raises(CorruptDataError):
        Splits.load(tmp_path / "x")


def test_journals_keep_categories_on_the_disk(tmp_path):
    splits = Splits(["a", "b"], categories={0: ("x", "y", "z"), 1: None})
    terms = ResumptionTerms("plain", 100, 8, "rows", "digest")
    journal = Journals(restarted(tmp_path)).start(b"m" * 16, terms, splits)
    for rule in ((0, 0.0, True, (0, 2)), (1, 0.0, False, (7,))):
        splits.add(*rule)
        journal.keep()
    assert Journals(restarted(tmp_path)).find(b"m" * 16) == (terms, splits)
    again = Journals(restarted(tmp_path)).start(b"m" * 16, terms, splits.first(1))
    again.keep()
    store = restarted(tmp_path)
    assert Journals(store).find(b"m" * 16)[1].right == {0: (0, 2)}
    RunLog(store, b"m" * 16).store.put(FOUND, "", [[0, 0.0, True, [2, 0]]])
    with pytest.raises(StoreError, match=r"journal.*damaged"):
        Journals(store).find(b"m" * 16)


class Restarting:
    """A party that is lost once, before it answers a request with categories."""

    def __init__(self, party):
        self.party, self.name, self.left = party, party.name, 2

    def handle(self, request):
        if isinstance(messages.read(request).message, SplitCategories) and self.left:
            self.left -= 1
            if self.left == 0:
                raise PartyUnavailableError("lost")
        return self.party.handle(request)


def test_a_run_that_was_interrupted_ends_in_the_same_model(tmp_path):
    own, theirs, y = frames()
    params = {**BASE, "enable_categorical": True, "random_state": 1}
    whole = train(params, own, y, [xgb_fed.LocalParty(theirs, "bank", enable_categorical=True)], 3)
    party = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True)
    with pytest.raises(PartyUnavailableError):
        train(params, own, y, [Restarting(party)], 3, checkpoint=tmp_path)
    resumed = train(params, own, y, [party], 3, checkpoint=tmp_path)
    parts = [json.loads(text_of(model)) for model in (whole, resumed)]
    assert len(parts[1].pop("restarts")) == len(parts[0].pop("restarts")) + 1
    assert parts[0] == parts[1]


# What the passive party checks.


def test_names_of_categories_do_not_leave_their_party(recorded):
    party, theirs = recorded
    spoken = b"".join(party.answers)
    assert not any(str(label).encode() in spoken for label in theirs["shop"].cat.categories)
    kinds = {type(message) for message in party.messages()}
    assert {CategoriesOpened, SplitCategories, RevealedCategories} <= kinds


def changed(request, **fields):
    envelope = messages.read(request)
    content = {**envelope.message.__dict__, **fields}
    kind = fields.pop("kind", type(envelope.message))
    content.pop("kind", None)
    return messages.write(envelope.session, envelope.sequence, kind(**content))


def answers_of(recorded, at, request):
    party, theirs = recorded
    fresh = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True)
    for one in party.requests[:at]:
        fresh.handle(one)
    return messages.read(fresh.handle(request)).message


def first_split(recorded):
    party, _ = recorded
    return next(
        (k, messages.read(request).message)
        for k, request in enumerate(party.requests)
        if isinstance(messages.read(request).message, SplitCategories)
    )


def test_requests_that_cannot_be_are_refused(recorded):
    party, theirs = recorded
    at, message = first_split(recorded)
    request = party.requests[at]
    assert (message.nodes.tolist(), message.columns.tolist()) == ([0], [1])
    everything = np.packbits(np.ones(12, dtype=bool))
    beyond = message.right | np.array([0, 1], dtype=np.uint8)
    for fields, words in (
        ({"right": np.zeros_like(message.right)}, "no category goes right"),
        ({"right": everything, "default_left": np.array([0])}, "does not divide"),
        ({"right": beyond}, "flags beyond"),
        ({"right": message.right[:1]}, "1 bytes of flags for 12"),
        ({"right": np.append(message.right, 0)}, "3 bytes of flags for 12"),
        ({"last_left": np.array([3])}, "no category goes right"),
        ({"columns": np.array([0])}, "2 bytes of flags for 0"),
        ({"columns": np.array([3])}, "without statistics"),
        ({"nodes": np.array([1])}, "without statistics"),
    ):
        answer = answers_of(recorded, at, changed(request, **fields))
        assert isinstance(answer, messages.Refusal), fields
        assert words in answer.reason, fields
    plain = SplitNodes(message.nodes, message.columns, message.last_left, message.default_left)
    envelope = messages.read(request)
    answer = answers_of(recorded, at, messages.write(envelope.session, envelope.sequence, plain))
    assert "0 bytes of flags for 12" in answer.reason
    # All that have rows, and missing values to the left: possible, if unusual.
    assert theirs["shop"].isna().any()
    fine = changed(request, right=everything, default_left=np.array([1]))
    assert not isinstance(answers_of(recorded, at, fine), messages.Refusal)


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_requests_with_other_contents_are_answered(recorded, data):
    at, _ = first_split(recorded)
    ints = st.lists(st.integers(-3, 5) | st.integers(-(2**31), 2**31 - 1), max_size=3)
    octets = st.lists(st.integers(0, 255), max_size=4)
    fields = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "nodes": ints,
                "columns": ints,
                "last_left": ints,
                "default_left": octets,
                "right": octets,
            },
        )
    )
    answer = answers_of(recorded, at, changed(recorded[0].requests[at], **fields))
    assert "internal error" not in getattr(answer, "reason", "")


# What the active party checks.


def places_of(codes, n_bins):
    counts = np.bincount(codes, minlength=n_bins + 1)
    agreed = AgreedColumns(np.array([n_bins]), counts, 2, frozenset({0}))
    agreed.check(len(codes), 2)
    return RowPlaces(agreed, len(codes))


def left_of(codes, split, n_bins):
    return np.where(codes == n_bins, split.default_left, ~np.isin(codes, split.right))


def a_split(data, n_bins):
    right = data.draw(st.sets(st.integers(0, n_bins - 1), min_size=1))
    return NamedSplit(0, -1, data.draw(st.booleans()), tuple(sorted(right)))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_columns_that_stay_the_same_are_never_refused(data):
    n_bins = data.draw(st.integers(1, 9))
    codes = np.array(data.draw(st.lists(st.integers(0, n_bins), min_size=1, max_size=20)))
    places = places_of(codes, n_bins)
    for _ in range(data.draw(st.integers(1, 8))):
        split = a_split(data, n_bins)
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(codes), max_size=len(codes))))
        rows = np.flatnonzero(mask)
        places.note(split, rows, left_of(codes[rows], split, n_bins))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_row_that_changes_its_category_is_refused(data):
    n_bins = data.draw(st.integers(2, 9))
    codes = np.array(data.draw(st.lists(st.integers(0, n_bins - 1), min_size=2, max_size=20)))
    places, split = places_of(codes, n_bins), a_split(data, n_bins)
    left = left_of(codes, split, n_bins)
    places.note(split, np.arange(len(codes)), left)
    row = data.draw(st.integers(0, len(codes) - 1))
    with pytest.raises(ProtocolError, match=r"another category|more rows"):
        places.note(split, np.array([row]), ~left[[row]])


def test_more_rows_than_a_category_has_are_refused():
    codes = np.array([0, 0, 1, 1, 1, 2])
    places, rest = places_of(codes, 3), NamedSplit(0, -1, False, (1, 2))
    places.note(rest, np.array([0, 1]), np.array([True, True]))
    with pytest.raises(ProtocolError, match="more rows"):
        places.note(rest, np.array([2]), np.array([True]))
    places = places_of(np.array([0, 0, 1, 1, 2, 2]), 3)
    places.note(NamedSplit(0, -1, False, (0,)), np.array([0, 1, 2, 3]), np.ones(4, dtype=bool))
    with pytest.raises(ProtocolError, match="more rows"):  # three rows are neither in 0 nor in 1
        places.note(NamedSplit(0, -1, False, (1,)), np.array([0, 1, 2]), np.ones(3, dtype=bool))


def test_a_column_of_many_categories_takes_limited_memory(monkeypatch):
    """Rows then keep wider sets, which catch less and refuse no honest party."""
    monkeypatch.setattr(row_places, "MAX_SET_CELLS", 40 * 25)
    random = np.random.default_rng(0)
    codes = random.integers(0, 40, 300)
    places, told = places_of(codes, 40), []
    for _ in range(60):
        right = tuple(np.flatnonzero(random.random(40) < 0.5).tolist())
        split, rows = NamedSplit(0, -1, False, right), np.flatnonzero(random.random(300) < 0.3)
        left = left_of(codes[rows], split, 40)
        places.note(split, rows, left)
        told.append((split, rows, left))
        assert places.categorical[0].possible.size <= 40 * 25
    split, rows, left = told[0]
    with pytest.raises(ProtocolError, match=r"another category|more rows"):
        places.note(split, rows, ~left)


def test_a_party_that_sends_other_categories_left_is_caught():
    """It answers with a set of rows of another category of the same size."""
    n = 60
    codes = np.repeat(np.arange(6), 10).astype(np.float32)
    y = np.isin(codes, [1, 4]).astype(np.float32)

    def change(request, answer):
        envelope = messages.read(answer)
        if not isinstance(messages.read(request).message, SplitCategories):
            return answer
        flags = messages.from_bits(envelope.message.left_rows, n)
        content = {**envelope.message.__dict__, "left_rows": messages.to_bits(np.roll(flags, 10))}
        return messages.write(envelope.session, envelope.sequence, type(envelope.message)(**content))

    party = Recorder(xgb_fed.LocalParty(codes[:, None], "bank", feature_types=["c"]), change)
    with pytest.raises(ProtocolError, match="rows left"):
        train({**BASE, "enable_categorical": True}, None, y, [party], 1)


class Redrawing:
    """Gives its rows other categories from some tree on, as many rows to each as it announced."""

    name = "bank"

    def __init__(self, codes, first):
        self.party, self.first = xgb_fed.LocalParty(codes, self.name, feature_types=["c"]), first
        self.random = np.random.default_rng(0)

    def handle(self, request):
        message = messages.read(request).message
        if isinstance(message, StartTree) and message.tree >= self.first:
            kept = list(self.party.handler.sessions.values())[-1].kept
            order = self.random.permutation(kept.columns.n_rows)
            for values in (kept.bins.codes, kept.columns.data):
                values[:] = values[order]
        return self.party.handle(request)


class LostAt(Redrawing):
    """The same, but lost before a tree."""

    until = 3

    def handle(self, request):
        message = messages.read(request).message
        if isinstance(message, StartTree) and message.tree == self.until:
            raise PartyUnavailableError("lost")
        return super().handle(request)


def test_attack_by_categories_that_are_drawn_anew_is_refused(tmp_path):
    """Also if the run was taken up from a checkpoint in between."""
    random = np.random.default_rng(1)
    codes, y = random.integers(0, 12, (200, 1)), random.integers(0, 2, 200).astype(np.float32)
    params = {**BASE, "max_depth": 2, "enable_categorical": True}
    with pytest.raises(ProtocolError, match=r"'bank': .*(another|more rows)"):
        train(params, None, y, [Redrawing(codes, 1)], 10)
    party = LostAt(codes, 3)
    with pytest.raises(PartyUnavailableError):
        train(params, None, y, [party], 10, checkpoint=tmp_path)
    party.until = None
    with pytest.raises(ProtocolError, match=r"'bank': .*(another|more rows)"):
        train(params, None, y, [party], 10, checkpoint=tmp_path)


def test_messages_of_numeric_columns_stay_as_they_were():
    """A party without categories answers, and is asked, as by earlier releases."""
    X = np.random.default_rng(0).normal(size=(40, 1)).astype(np.float32)
    party = Recorder(xgb_fed.LocalParty(X, "bank"))
    train({**BASE, "enable_categorical": True}, None, (X[:, 0] > 0).astype(np.float32), [party], 1)
    kinds = [type(message) for message in party.messages()]
    assert TrainingOpened in kinds
    assert SplitNodes in kinds
    assert not {CategoriesOpened, SplitCategories} & set(kinds)

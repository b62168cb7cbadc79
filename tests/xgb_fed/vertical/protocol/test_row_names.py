"""Rows that are not the same rows, and columns that are not the same columns, never give a result."""

import pickle

import numpy as np
import pandas as pd
import pytest

import xgb_fed
from xgb_fed import ActiveData, Alignment, LocalParty, Plain, VerticalXGBClassifier, VerticalXGBRegressor
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.protocol.row_names import RowNames, check_rows

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")

N = 60
RANDOM = np.random.default_rng(2)
VALUES = RANDOM.standard_normal((2 * N, 4)).astype(np.float32)
IDS = [f"p{k:03d}" for k in range(2 * N)]
FRAME = pd.DataFrame(VALUES, columns=["age", "income", "dose", "weight"], index=IDS)
Y = (VALUES.sum(axis=1) > 0).astype(int)
OWN, THEIRS = ["age", "income"], ["dose", "weight"]
SHUFFLED = RANDOM.permutation(N)
SMALL = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "cipher": Plain()}
TRAIN, NEW = FRAME.iloc[:N], FRAME.iloc[N:]


def bank(frame=TRAIN[THEIRS], **how):
    return LocalParty(frame, "bank", **how)


class Counted:
    """A party that counts requests, to show that none was made."""

    def __init__(self, party):
        self.party, self.name, self.row_names, self.n_requests = party, party.name, party.row_names, 0

    def handle(self, request):
        self.n_requests += 1
        return self.party.handle(request)


def fitted(X=TRAIN[OWN], party=None, cls=VerticalXGBClassifier, **how):
    return cls(**SMALL, **how).fit(X, Y[: len(X)], parties=[bank() if party is None else party])


@pytest.mark.parametrize("cls", [VerticalXGBClassifier, VerticalXGBRegressor])
@pytest.mark.parametrize(
    "theirs",
    [TRAIN.iloc[SHUFFLED][THEIRS], NEW[THEIRS], TRAIN[THEIRS].set_axis(range(1000, 1000 + N))],
    ids=["another order", "other rows", "other names"],
)
def test_other_rows_than_the_parties_are_refused_before_training(cls, theirs):
    party = Counted(bank(theirs))
    with pytest.raises(xgb_fed.RowMismatchError, match=r"index of active_data .* party 'bank'") as caught:
        fitted(party=party, cls=cls)
    assert party.n_requests == 0
    assert isinstance(caught.value, xgb_fed.InvalidDataError)
    assert not any(name in str(caught.value) for name in IDS)
    party = Counted(bank(theirs))
    with pytest.raises(xgb_fed.RowMismatchError):
        xgb_fed.train({}, ActiveData(TRAIN[OWN], Y[:N]), [party], 1, cipher=Plain(), verbose_eval=False)
    assert party.n_requests == 0


def test_a_frame_that_was_shuffled_alone_is_refused():
    """Numbers 0 to n − 1 in another order, beside the default index, are its rows in another order."""
    plain = TRAIN.reset_index(drop=True)
    for own, theirs in [(plain.iloc[SHUFFLED], plain), (plain, plain.iloc[SHUFFLED])]:
        with pytest.raises(xgb_fed.RowMismatchError):
            fitted(own[OWN], bank(theirs[THEIRS]))


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (TRAIN, TRAIN),
        (TRAIN.iloc[SHUFFLED], TRAIN.iloc[SHUFFLED]),
        (TRAIN, TRAIN.reset_index(drop=True)),
        (TRAIN.reset_index(drop=True), TRAIN),
        (TRAIN.reset_index(drop=True), TRAIN.reset_index(drop=True)),
        (TRAIN.set_axis(range(7, 7 + N)), TRAIN.set_axis([str(k) for k in range(7, 7 + N)])),
    ],
    ids=["same", "same order", "party unnamed", "active unnamed", "both unnamed", "numbers and texts"],
)
def test_rows_that_do_not_contradict_are_trained_on(own, theirs):
    model = fitted(own[OWN], bank(theirs[THEIRS]))
    assert model.predict(own[OWN]).shape == (N,)
    assert fitted(own[OWN].to_numpy(), bank(theirs[THEIRS])).n_features_in_ == 2


def test_evaluation_sets_are_checked():
    held = [(NEW[OWN], Y[N:])]
    model = VerticalXGBClassifier(**SMALL)
    with pytest.raises(xgb_fed.RowMismatchError, match="evaluation set 'validation_0'"):
        model.fit(TRAIN[OWN], Y[:N], parties=[bank(eval_sets=[NEW.iloc[SHUFFLED][THEIRS]])], eval_set=held)
    model.fit(TRAIN[OWN], Y[:N], parties=[bank(eval_sets=[NEW[THEIRS]])], eval_set=held)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["age", "dose"], r"missing \['income'\], unknown \['dose'\]"),
        (OWN[::-1], r"order .* \['age', 'income'\]"),
    ],
    ids=["others", "another order"],
)
def test_evaluation_sets_with_other_columns_are_refused(columns, words):
    party = bank(eval_sets=[NEW[THEIRS]])
    with pytest.raises(xgb_fed.InvalidDataError, match=rf"evaluation set 'validation_0'.*{words}"):
        VerticalXGBClassifier(**SMALL).fit(
            TRAIN[OWN], Y[:N], parties=[party], eval_set=[(NEW[columns], Y[N:])]
        )


@pytest.mark.parametrize("columns", [["dose", "age"], THEIRS[::-1]], ids=["others", "another order"])
def test_evaluation_sets_of_a_party_with_other_columns_are_refused(columns):
    with pytest.raises(xgb_fed.InvalidDataError, match=r"eval_sets\[0\] of party 'bank'"):
        bank(eval_sets=[NEW[columns]])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "apply"])
@pytest.mark.parametrize("kind", ["named", "unnamed", "array"])
def test_other_rows_than_those_of_fit_need_the_parties_rows(method, kind):
    """As many rows as were trained on: the parties' rows of `fit` would give a result, and a wrong one."""
    as_kind = {
        "named": lambda frame: frame,
        "unnamed": lambda frame: frame.reset_index(drop=True),
        "array": lambda frame: frame.to_numpy(),
    }[kind]
    model = fitted(as_kind(TRAIN[OWN]), bank(as_kind(TRAIN[THEIRS])))
    ask = getattr(model, method)
    kept = ask(as_kind(TRAIN[OWN]))
    for rows in (NEW, TRAIN.iloc[SHUFFLED], NEW.iloc[:10]):
        with pytest.raises(xgb_fed.RowMismatchError, match=r"parties=\[party.with_rows"):
            ask(as_kind(rows[OWN]))
    party = model.parties_[0].with_rows(as_kind(NEW[THEIRS]))
    got = ask(as_kind(NEW[OWN]), [party])
    pooled = ask(as_kind(FRAME[OWN]), [party.with_rows(as_kind(FRAME[THEIRS]))])
    np.testing.assert_array_equal(got, pooled[N:])
    np.testing.assert_array_equal(kept, pooled[:N])


def test_changed_values_of_the_same_named_rows_are_predicted():
    """Permutation importance and what-if questions."""
    model = fitted()
    assert model.predict(TRAIN[OWN] + 1).shape == (N,)
    array = fitted(TRAIN[OWN].to_numpy(), bank(TRAIN[THEIRS].to_numpy()))
    changed = TRAIN[OWN].to_numpy() + 1
    with pytest.raises(xgb_fed.RowMismatchError):
        array.predict(changed)
    assert array.predict(changed, array.parties_).shape == (N,)


def test_parties_given_at_prediction_are_checked_too():
    model = fitted()
    party = model.parties_[0]
    for wrong in (party, party.with_rows(NEW.iloc[SHUFFLED][THEIRS])):
        with pytest.raises(xgb_fed.RowMismatchError, match="index of X"):
            model.predict(NEW[OWN], [wrong])
        with pytest.raises(xgb_fed.RowMismatchError, match="index of X"):
            model.model_.predict(NEW[OWN], [wrong])


def test_a_loaded_models_parties_have_the_rows_that_were_predicted_first(tmp_path):
    model = fitted(TRAIN[OWN].to_numpy(), bank(TRAIN[THEIRS].to_numpy()))
    model.save_model(tmp_path)
    party = model.parties_[0].with_rows(NEW[THEIRS].to_numpy())
    again = VerticalXGBClassifier()
    again.load_model(tmp_path, [party])
    first = again.predict(NEW[OWN].to_numpy())
    np.testing.assert_array_equal(first, model.predict(NEW[OWN].to_numpy(), [party]))
    with pytest.raises(xgb_fed.RowMismatchError):
        again.predict(TRAIN[OWN].to_numpy())
    np.testing.assert_array_equal(again.predict(NEW[OWN].to_numpy()), first)


def test_positions_from_the_index_are_those_of_the_parties_frame():
    plain = FRAME.reset_index(drop=True)
    model = VerticalXGBClassifier(**SMALL, rows_by_index=True)
    rows = plain.iloc[SHUFFLED]
    model.fit(rows[OWN], Y[SHUFFLED], parties=[bank(plain[THEIRS])])
    expected = model.predict(plain[OWN])
    np.testing.assert_array_equal(model.predict(rows[OWN]), expected[SHUFFLED])
    with pytest.raises(xgb_fed.RowMismatchError):
        model.fit(rows[OWN], Y[SHUFFLED], parties=[bank(plain.iloc[::-1][THEIRS])])


def test_columns_of_a_party_in_another_order_are_refused():
    model = fitted()
    swapped = model.parties_[0].with_rows(TRAIN[THEIRS[::-1]])
    with pytest.raises(xgb_fed.PartyRefusedError, match=r"'bank'.*columns have other names") as caught:
        model.predict_proba(TRAIN[OWN], [swapped])
    assert "dose" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["age"], r"missing \['income'\], unknown \[\]"),
        (["age", "income", "dose"], r"missing \[\], unknown \['dose'\]"),
        (["age", "weight"], r"missing \['income'\], unknown \['weight'\]"),
        (["income", "age"], r"in the order of training, \['age', 'income'\]"),
    ],
    ids=["missing", "extra", "renamed", "another order"],
)
def test_other_columns_are_refused_by_name(columns, words):
    with pytest.raises(xgb_fed.InvalidDataError, match=words):
        fitted().predict(TRAIN[columns])


def test_a_model_without_names_takes_no_named_columns():
    model = fitted(TRAIN[OWN].to_numpy())
    with pytest.raises(xgb_fed.InvalidDataError, match=r"unknown \['age', 'income'\]"):
        model.predict(TRAIN[OWN])


class Aligned:
    """A remote party's view of rows: the digest of the aligned ids."""

    name = "bank"

    def __init__(self, *alignments):
        self.row_sets = tuple(alignment.digest for alignment in alignments)


def test_aligned_rows_are_checked_by_the_digest_of_their_ids():
    party = Aligned(Alignment(tuple(IDS[:N])), Alignment(tuple(IDS[N:])))
    everyone = np.empty(0, dtype=np.int32)
    check_rows(RowNames.of(TRAIN), [party], "X", everyone)
    check_rows(RowNames.of(NEW), [party], "X", everyone, 1)
    check_rows(RowNames.of(NEW.reset_index(drop=True)), [party], "X", everyone)
    check_rows(RowNames.of(NEW.to_numpy()), [party], "X", everyone)
    for frame in (NEW, TRAIN.iloc[::-1], TRAIN.iloc[1:]):
        with pytest.raises(xgb_fed.RowMismatchError, match=r"'bank'.*Alignment\.ids"):
            check_rows(RowNames.of(frame), [party], "X", everyone)


def test_a_remote_partys_row_sets_are_known():
    digest = Alignment(("a", "b")).digest
    party = xgb_fed.RemoteParty("127.0.0.1:1", insecure=True, row_sets=[digest])
    assert party.row_sets == (digest,)
    party.close()


def test_a_pickled_model_needs_parties():
    again = pickle.loads(pickle.dumps(fitted()))
    with pytest.raises(InvalidArgumentError, match="parties must be given"):
        again.predict(NEW[OWN])
    assert again._rows_of_parties is None


@pytest.mark.parametrize(
    ("own", "theirs"),
    [
        (["r", "a", "b\nc"], ["r", "a\nb", "c"]),
        (["r", "", "\n"], ["r", "\n", ""]),
        (["r", "1\n2"], ["r", "\n3\n1\n2"]),
    ],
)
def test_labels_of_several_lines_are_not_taken_for_others(own, theirs):
    names = [RowNames(np.array(labels, dtype=object), False) for labels in (own, theirs)]
    assert not names[0].agrees(names[1])
    assert names[0].agrees(names[0])
    ids = Alignment(("a", "b c"))
    assert RowNames(np.array(ids.ids), False).digest == ids.digest


def test_a_default_index_beside_its_own_numbers_as_floats_in_another_order_disagrees():
    default = RowNames.of(pd.DataFrame({"a": range(4)}))
    assert default.agrees(RowNames(np.arange(4.0)[::-1], False)) is False
    assert default.agrees(RowNames(np.arange(4.0), False))

"""Rows that are not the same rows, and columns that are not the same columns, never give a result."""

import numpy as np
import pandas as pd
import pytest

import xgb_fed
from named_rows import IDS, NEW, OWN, SHUFFLED, SMALL, THEIRS, TRAIN, N, Y, bank, fitted
from xgb_fed import ActiveData, Alignment, Plain, VerticalXGBClassifier, VerticalXGBRegressor
from xgb_fed.vertical.protocol.row_names import RowIdentity, RowNames, check_rows

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


class Counted:
    """A party that counts requests, to show that none was made."""

    def __init__(self, party):
        self.party, self.name, self.row_names, self.n_requests = party, party.name, party.row_names, 0

    def handle(self, request):
        self.n_requests += 1
        return self.party.handle(request)


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


def test_rows_are_the_same_by_their_names_or_where_some_have_none_by_their_values():
    kept = RowIdentity(3, b"names", "values")
    for same in (kept, RowIdentity(3, b"names", "others"), RowIdentity(3, None, "values")):
        kept.check(same, "X")
    for other in (RowIdentity(3, b"other", "values"), RowIdentity(3, None, "others")):
        with pytest.raises(xgb_fed.RowMismatchError, match=r"X \(3 rows\) holds other rows"):
            kept.check(other, "X")


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


def test_columns_are_known_by_name_and_one_that_is_gone_is_named_to_its_owner(tmp_path, caplog):
    model = fitted()
    model.parties_[0].save_model(tmp_path)
    expected = model.predict_proba(TRAIN[OWN])

    def predicted(table):
        later = xgb_fed.LocalParty(table, "bank")
        later.load_model(tmp_path)
        return model.predict_proba(TRAIN[OWN], [later])

    for columns in (THEIRS[::-1], ["late", *THEIRS]):
        np.testing.assert_array_equal(predicted(TRAIN.assign(late=1.0)[columns]), expected)
    with pytest.raises(xgb_fed.PartyRefusedError, match=r"'bank'.*columns.*needs") as caught:
        predicted(TRAIN[OWN])
    assert not any(name in str(caught.value) for name in THEIRS)
    lines = [line.getMessage() for line in caplog.records if "is gone" in line.getMessage()]
    assert lines
    for line in lines:
        assert any(repr(name) in line for name in THEIRS)
        assert next(iter(tmp_path.glob("*.json"))).name.split(".")[0] in line


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (["age"], r"missing \['income'\], unknown \[\]"),
        (["age", "weight"], r"missing \['income'\], unknown \['weight'\]"),
    ],
    ids=["missing", "renamed"],
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

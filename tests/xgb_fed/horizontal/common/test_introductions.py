"""A coordinator reads what a party says strictly, and names the party whose words do not fit."""

import json
import tracemalloc

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, ProtocolError
from gbdt_parties.traffic import Traffic
from xgb_fed import HorizontalParty, train_simfl
from xgb_fed.horizontal.common.introductions import (
    common_classes,
    common_columns,
    common_mean_label,
    names_to_json,
)
from xgb_fed.horizontal.common.messages import HorizontalOpened, Introduce, OpenHorizontal, RowShape, Trees
from xgb_fed.horizontal.simfl.messages import ColumnMoments, SeedContribution

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(60, 5))
Y = RANDOM.integers(0, 2, 60)


class Liar:
    """A party some of whose answers are changed on their way."""

    name = "south"

    def __init__(self, kind, y=Y, **changed):
        self._party = HorizontalParty(X, y, "south", categorical_labels=True, n_jobs=1)
        self._kind, self._changed = kind, changed

    def handle(self, request):
        envelope = messages.read(self._party.handle(request))
        message = envelope.message
        if isinstance(message, self._kind):
            message = self._kind(**{**message.__dict__, **self._changed})
        return messages.write(envelope.session, envelope.sequence, message)


def train(liar, params=None):
    north = HorizontalParty(X, Y, "north", categorical_labels=True, n_jobs=1)
    params = {"objective": "binary:logistic"} if params is None else params
    return train_simfl(params, [north, liar], 2, verbose_eval=False)


@pytest.mark.parametrize(
    "changed",
    [
        {"names": "\x1b[2J\x1b[31mroot@host# all is well\r\n" + "x" * 100_000},
        {"names": "7"},
        {"names": "[1, 2, 3, 4, 5]"},
        {"names": '["a", "b"]'},
        {"names": "[" * 100_000},
        {"classes": "[[1],[2]]"},
        {"classes": "{"},
        {"classes": "[" * 100_000},
        {"classes": json.dumps(["\u202e" + "x" * 100_000, 1])},
        {"classes": "5"},
        {"classes": ""},
        {"classes": "[NaN, 0, 1]"},
        {"classes": "[0, 1, Infinity]"},
        {"classes": "[1, 0]"},
        {"classes": json.dumps(list(range(257)))},
        {"classes": json.dumps(["x" * (1 << 20)])},
        {"classes": json.dumps(["a", "b" * 201])},
        {"classes": "[" + "9" * 5000 + "]"},
        {"n_rows": -5},
        {"n_rows": 0},
        {"n_rows": 2**62},
        {"n_features": 0},
    ],
    ids=lambda changed: str(changed)[:30],
)
def test_introductions_that_do_not_fit_are_refused_by_name(changed):
    with pytest.raises(ProtocolError, match="party 'south'") as caught:
        train(Liar(RowShape, **changed))
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_names_and_labels_are_quoted_and_cut():
    long = json.dumps(["x" * 256, *"bcde"])
    names = json.dumps(["\u202e\r\n" + "x" * 10_000, *"bcde"], ensure_ascii=False)
    only = json.dumps(["\x1b[31m" + "x" * 190])
    for changed, text in (
        ({"names": long}, "has columns"),
        ({"n_features": 7}, "has 7 columns"),
        ({"names": names}, "introduces itself with columns: the name of column 0 has 10003 characters"),
        ({"names": '["a","a","c","d","e"]'}, "introduces itself with columns: duplicate column names"),
    ):
        with pytest.raises((InvalidDataError, ProtocolError), match=f"'south' {text}") as caught:
            train(Liar(RowShape, **changed))
        assert len(str(caught.value)) < 700
        assert str(caught.value).isprintable()
    with pytest.raises(InvalidDataError, match=r"text.*party"):
        train(Liar(RowShape, classes=only))


@pytest.mark.parametrize("labels", [np.arange(len(Y)) % 2, np.array(["a", "b"])[np.arange(len(Y)) % 2]])
def test_agreed_classes_of_long_texts_are_refused_before_they_take_memory(labels):
    party = HorizontalParty(X, labels, "south", categorical_labels=True, n_jobs=1)
    classes = json.dumps(["a", "b", *(f"c{place:03}" for place in range(253)), "z" * 20_000])
    settings = json.dumps({"objective": "multi:softprob", "num_class": 256})
    channel = Channel(party, bytes(16), Traffic(), "coordinator")
    channel.ask(Introduce(False), RowShape)
    opening = OpenHorizontal(settings, classes, 0, np.array([len(Y), 300]), 1, 10)
    tracemalloc.start()
    try:
        with pytest.raises(PartyRefusedError, match="more than 200 characters"):
            channel.ask(opening, HorizontalOpened)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_party_does_not_tell_classes_of_long_texts():
    labels = np.array(["a", "b" * 201])[np.arange(len(Y)) % 2]
    south = HorizontalParty(X, labels, "south", categorical_labels=True, n_jobs=1)
    with pytest.raises(PartyRefusedError, match=r"class.*200 characters"):
        train(south)


def test_classes_of_all_parties_are_at_most_as_many_as_are_told():
    with pytest.raises(InvalidDataError, match=r"258 classes over.*256"):
        train(Liar(RowShape, classes=json.dumps(list(range(2, 258)))))


@pytest.mark.parametrize(
    ("kind", "changed", "reason"),
    [
        (HorizontalOpened, {"label_sums": np.array([1.0])}, "sums of weights and labels"),
        (HorizontalOpened, {"label_sums": np.array([np.nan, 1.0])}, "sums of weights and labels"),
        (HorizontalOpened, {"label_sums": np.array([-60.0, 5.0])}, "sums of weights and labels"),
        (HorizontalOpened, {"label_sums": np.array([60.0, 61.0])}, "sums of weights and labels"),
        (ColumnMoments, {"known_features": -3}, "known_features of ColumnMoments"),
        (SeedContribution, {"contribution": b"short"}, "contribution to a hash seed"),
        (Trees, {"models": b"{}" + b" " * 1000}, "cut off"),
    ],
)
def test_later_answers_that_do_not_fit_are_refused_by_name(kind, changed, reason):
    liar = Liar(kind, **changed)
    with pytest.raises(ProtocolError, match=f"party 'south': .*{reason}"):
        train(liar)


@pytest.mark.parametrize("classes", ["[0, 1e999]", "[0, Infinity]", f"[{10**30}]", "[1, 0]", "[" * 10**5])
def test_classes_are_read_by_the_one_reader_again_where_they_are_joined(classes):
    told = [RowShape(1, 1, "", "[0, 1]"), RowShape(1, 1, "", classes)]
    with pytest.raises(ProtocolError, match="classes"):
        common_classes(["north", "south"], told, "multi:softprob", None, True)


@pytest.mark.parametrize("names", ["[NaN]", f"[{10**30}]", "[" * 10**5])
def test_names_are_read_by_the_one_reader_again_where_they_are_compared(names):
    with pytest.raises(ValueError, match=r"not finite|64 bits|brackets"):
        common_columns(["north"], [RowShape(1, 1, names, "")])


def test_sums_of_labels_without_any_weight_have_no_mean():
    empty = HorizontalOpened(np.zeros(2))
    with pytest.raises(InvalidDataError, match="weight above 0"):
        common_mean_label(["a", "b"], [empty, empty], True)


def classes_of(objective, num_class, is_auto, **told):
    described = [RowShape(1, 1, "", json.dumps(classes)) for classes in told.values()]
    classes, objective = common_classes(list(told), described, objective, num_class, is_auto)
    return classes.tolist(), objective


@pytest.mark.parametrize(
    ("told", "is_auto"),
    [
        ({"ada": [0, 1], "bob": [1, 2]}, False),
        ({"ada": [0, 1], "bob": [1, 2]}, True),
        ({"ada": [0, 1], "bob": [0, 1, 9]}, False),
        ({"ada": [0, 1, 2], "bob": [0, 1, 2]}, False),
        ({"ada": ["no", "yes"], "bob": ["No", "Yes"]}, True),
        ({"ada": [0], "bob": [1], "cyd": [2]}, True),
    ],
)
def test_labels_of_more_than_two_classes_are_refused_with_what_each_party_told(told, is_auto):
    """XGBoost's own words on labels 1 and 2 are that they must be in [0, 1]."""
    n = len({label for own in told.values() for label in own})
    with pytest.raises(InvalidDataError, match=f"{n}.*2: 'ada'.*; code") as error:
        classes_of("binary:logistic", None, is_auto, **told)
    assert all(f"{party!r} has {own}" in str(error.value) for party, own in told.items())


def test_classes_decide_on_the_objective_only_where_one_party_has_more_than_two():
    assert classes_of("binary:logistic", None, True, ada=[0, 1, 2], bob=[0, 2]) == (
        [0, 1, 2],
        "multi:softprob",
    )
    assert classes_of("binary:logistic", None, True, ada=[0], bob=[1]) == ([0, 1], "binary:logistic")
    assert classes_of("binary:logistic", None, False, ada=[1, 2], bob=[2]) == ([1, 2], "binary:logistic")
    assert classes_of("multi:softprob", 3, False, ada=[0, 1], bob=[2]) == ([0, 1, 2], "multi:softprob")


def test_classes_of_another_number_than_was_given_are_refused_with_what_each_party_told():
    with pytest.raises(InvalidDataError, match=r"4 classes.*3: 'ada' has \[0, 1, 2\], 'bob'"):
        classes_of("multi:softprob", 3, False, ada=[0, 1, 2], bob=[1, 2, 3])
    with pytest.raises(InvalidDataError, match=r"'ada' has \[0, 1\], 'bob' has \['0', '1'\]"):
        classes_of("binary:logistic", None, True, ada=[0, 1], bob=["0", "1"])


@pytest.mark.parametrize("name", ["a[0]", "a]", "income<10k"])
def test_names_that_xgboost_refuses_are_refused_before_training(name):
    """Before, models had been trained that could not predict their own table."""
    with pytest.raises(InvalidDataError, match="XGBoost accepts no name"):
        names_to_json(["b", name])

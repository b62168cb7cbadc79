"""Rows that change between runs: no combination of sums of several states is about few of a party's rows."""

import numpy as np
import pandas as pd
import pytest

from gbdt_commons.store import MemoryStore
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.memory import MemoryAllowance
from kept_stores import end_process
from xgb_fed import ExactTerms, HorizontalParty, PartyRefusedError, train_exact, train_simfl
from xgb_fed.horizontal.common.party_state import PartyState
from xgb_fed.horizontal.common.rows import OF_THIS_PROCESS, HorizontalRows
from xgb_fed.horizontal.common.told_rows import ToldRows

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")

RNG = np.random.default_rng(5)
X = RNG.normal(size=(400, 3)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=400) > 0).astype(int)
MIN = 10


def of(rows, X=X, y=Y, weight=None):
    """The rows of these numbers."""
    rows = np.asarray(rows)
    own = X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]
    return HorizontalRows.of(own, y[rows], "p", weight, True, 3, 0, 10_000, 100)


def told(store, rows, held_out=(), accepted=None, min_rows=MIN):
    """Begin with the rows as a process that is started does, and tell sums of them."""
    state = PartyState(bytes(32), store)
    one = ToldRows(store, state.stream, rows, held_out, min_rows)
    one.check(accepted)
    one.tell()
    return one


def changed(array, places, value):
    """A copy with another value at some places."""
    out = array.copy()
    out[places] = value
    return out


FEW = {
    "one row is added": lambda: of(range(201)),
    "nine rows are added": lambda: of(range(209)),
    "one row is gone": lambda: of(range(1, 200)),
    "many are added, and one is gone": lambda: of(range(1, 260)),
    "a label is corrected": lambda: of(range(200), y=changed(Y, 7, 1 - Y[7])),
    "a value is corrected": lambda: of(range(200), X=changed(X, (7, 2), 3.5)),
    "a value goes missing": lambda: of(range(200), X=changed(X, (7, 2), np.nan)),
    "a weight is changed": lambda: of(range(200), weight=changed(np.ones(200), 7, 2)),
    "a weight is 0": lambda: of(range(200), weight=changed(np.ones(200), 7, 0)),
    "rows of weight 0 hide one that is added": lambda: of(
        range(220), weight=changed(np.ones(220), range(201, 220), 0)
    ),
    "an equal row is added": lambda: of([*range(200), 5]),
    "all weights are doubled, and a label is corrected": lambda: of(
        range(200), y=changed(Y, 7, 1 - Y[7]), weight=np.full(200, 2.0)
    ),
    "nine values are corrected in a column, and a row is replaced": lambda: of(
        [*range(199), 250], X=changed(X, (range(9), 1), 3.5)
    ),
    "ten values are corrected in a column, one in another": lambda: of(
        range(200), X=changed(changed(X, (range(10), 1), 3.5), (3, 2), 3.5)
    ),
    "a hundred labels are corrected, and a value": lambda: of(
        range(200), X=changed(X, (3, 2), 3.5), y=changed(Y, range(90), 1 - Y[:90])
    ),
    "a column has other units, and a label is corrected": lambda: of(
        range(200), X=X * np.float32([1, 1, 100]), y=changed(Y, 7, 1 - Y[7])
    ),
}
ENOUGH = {
    "nothing": lambda: of(range(200)),
    "another order": lambda: of(RNG.permutation(200)),
    "ten rows are added": lambda: of(range(210)),
    "ten rows are gone": lambda: of(range(10, 200)),
    "a window of a year": lambda: of(range(20, 220)),
    "ten values are corrected": lambda: of(range(200), X=changed(X, (range(10), 1), 3.5)),
    "ten labels are corrected": lambda: of(range(200), y=changed(Y, range(10), 1 - Y[:10])),
    "rows of weight 0 are added": lambda: of(range(205), weight=changed(np.ones(205), range(200, 205), 0)),
    "labels of another type": lambda: of(range(200), y=Y.astype(float)),
}


@pytest.mark.parametrize("change", FEW)
def test_a_change_of_few_rows_is_refused_with_numbers_and_the_option_that_accepts_it(change):
    store = MemoryStore()
    told(store, of(range(200)))
    with pytest.raises(InvalidDataError, match=r"'p'.*gone.*accept_rows") as refused:
        told(store, FEW[change]())
    told(store, of(range(200)))
    name = str(refused.value).split("accept_rows=")[1].strip("'")
    told(store, FEW[change](), accepted=name)
    told(store, FEW[change]())
    with pytest.raises(InvalidDataError, match="accept_rows"):
        told(store, of(range(50, 203)), accepted=name)


@pytest.mark.parametrize("change", ENOUGH)
def test_a_change_of_enough_rows_is_accepted(change):
    store = MemoryStore()
    told(store, of(range(200)))
    told(store, ENOUGH[change]())


def test_three_states_whose_differences_combine_are_refused():
    """All four states differ in ten rows or more, and A − (A + P) − (A + Q) + (A + P + Q + x) is x."""
    store, states = MemoryStore(), [range(200), range(210), [*range(200), *range(210, 220)]]
    for state in states:
        told(store, of(state))
    with pytest.raises(InvalidDataError, match="about 1 of"):
        told(store, of(range(221)))
    told(store, of(range(220)))
    with pytest.raises(InvalidDataError, match="about 1 of"):
        told(store, of([*range(200), *range(201, 211)]))


@pytest.mark.parametrize("seed", range(20))
def test_no_combination_of_accepted_states_is_about_few_rows(seed):
    """Rows that are in the same told sets have the same factor: there are none of these, or enough."""
    rng, store, accepted, n_refused = np.random.default_rng(seed), MemoryStore(), [], 0
    now = set(range(120))
    for _ in range(12):
        size = rng.integers(1, 25, 2)
        new = now - set(rng.choice(sorted(now), min(size[0], len(now)), replace=False).tolist())
        new |= set(rng.choice(400, size[1], replace=False).tolist()) if rng.random() < 0.7 else set()
        try:
            told(store, of(sorted(new)))
        except InvalidDataError:
            n_refused += 1
            continue
        accepted.append(new)
        now = new
    signs = [tuple(row in state for state in accepted) for row in range(400)]
    assert all(signs.count(sign) >= MIN for sign in set(signs) if any(sign))
    assert n_refused


def test_held_out_rows_follow_the_rule_and_cannot_leave_one_behind_when_they_are_trained_on():
    store = MemoryStore()
    told(store, of(range(200)), [of(range(300, 330))])
    for moved in (
        {"rows": of(range(200)), "held_out": [of(range(300, 329))]},
        {"rows": of([*range(200), *range(300, 329)])},
        {"rows": of([*range(200), 329]), "held_out": [of(range(300, 329))]},
        {"rows": of(range(1, 200)), "held_out": [of([*range(300, 330), 0])]},
    ):
        with pytest.raises(InvalidDataError, match="accept_rows"):
            told(store, **moved)
    told(store, of([*range(200), *range(300, 330)]))
    told(store, of([*range(200), *range(300, 330)]), [of(range(350, 370))])


def test_a_row_that_two_held_out_sets_share_cannot_leave_one_of_them():
    """The set with it, less the set without it, is about this row alone."""
    sets, shared = [[*range(300, 330), 399], [*range(330, 360), 399]], MemoryStore()
    told(shared, of(range(200)), [of(one) for one in sets])
    told(shared, of(range(200)), [of(one) for one in sets])
    for held_out in ([sets[0], sets[1][:-1]], [sets[1][:-1]], [[*sets[1], *sets[0][:-1]]]):
        with pytest.raises(InvalidDataError, match="about 1 of"):
            told(shared, of(range(200)), [of(one) for one in held_out])
    told(shared, of(range(200)), [of(sets[1])])


def test_sets_of_one_state_that_tell_a_row_together_are_refused():
    """The first and the second of the later sets, less the set before, are about the row that both have."""
    store = MemoryStore()
    told(store, of(range(200)), [of(range(300, 340))])
    with pytest.raises(InvalidDataError, match="about 1 of"):
        told(store, of(range(200)), [of(range(300, 320)), of(range(319, 340))])
    told(store, of(range(200)), [of(range(300, 320)), of(range(320, 340))])


def test_a_column_that_comes_back_finds_its_rows():
    """A column that was left out in between must not hide the correction of one of its values."""
    table, store = pd.DataFrame(X, columns=["age", "dose", "rate"]), MemoryStore()
    few = table[["age", "rate"]]
    told(store, of(range(200), table))
    with pytest.raises(InvalidDataError, match="accept_rows") as refused:
        told(store, of(range(200), few))
    told(store, of(range(200), few), accepted=str(refused.value).split("accept_rows=")[1].strip("'"))
    with pytest.raises(InvalidDataError, match="about 1 of"):
        told(store, of(range(200), table.assign(dose=changed(X[:, 1], 7, 0))))
    for rows in (table, few):
        told(store, of(range(210), rows))
    with pytest.raises(InvalidDataError, match="about 1 of"):
        told(store, of(range(211), few))


def test_rows_are_accepted_beside_those_that_were_told_then():
    store = MemoryStore()
    told(store, of(range(200)))
    with pytest.raises(InvalidDataError) as refused:
        told(store, of(range(1, 200)))
    name = str(refused.value).split("accept_rows=")[1].strip("'")
    told(store, of(range(10, 200)))
    with pytest.raises(InvalidDataError, match="accept_rows"):
        told(store, of(range(1, 200)), accepted=name)


def test_columns_may_come_and_change_places_and_are_named_when_they_go():
    table, store = pd.DataFrame(X, columns=["age", "dose", "rate"]), MemoryStore()
    told(store, of(range(200), table[["age", "dose"]]))
    told(store, of(range(210), table[["rate", "dose", "age"]]))
    for rows in (range(211), range(1, 210)):
        with pytest.raises(InvalidDataError, match="about 1 of"):
            told(store, of(rows, table))
    with pytest.raises(InvalidDataError, match="about 1 of"):
        told(store, of(range(210), table.assign(rate=changed(X[:, 2], 4, 0))))
    with pytest.raises(InvalidDataError, match=r"no column \['dose'\]") as refused:
        told(store, of(range(210), table[["age", "rate"]]))
    name = str(refused.value).split("accept_rows=")[1].strip("'")
    for accepted in (name, None):
        told(store, of(range(210), table[["age", "rate"]]), accepted=accepted)


def test_a_minimum_of_one_accepts_every_change():
    store = MemoryStore()
    for change in FEW.values():
        told(store, change(), min_rows=1)


# Parties, in the methods' own runs.


def party(folder, rows, name="north", **more):
    return HorizontalParty(X[rows], Y[rows], name, categorical_labels=True, directory=folder, **more)


def exact(*members, **more):
    train_exact({"objective": "binary:logistic", "max_depth": 2}, members, 1, **more)


def simfl(*members):
    train_simfl({"objective": "binary:logistic"}, members, 2, n_hashes=1)


@pytest.mark.parametrize("train", [exact, simfl])
@pytest.mark.parametrize("next_one", [exact, simfl])
def test_a_run_of_either_method_binds_the_next_one_of_either(tmp_path, train, next_one):
    other = party(None, slice(200, 400), "south")
    train(party(tmp_path, slice(0, 180)), other)
    end_process(tmp_path)
    with pytest.raises(InvalidDataError, match=r"'north'.*about 1 of.*min_rows_per_node=10"):
        party(tmp_path, slice(0, 181))
    end_process(tmp_path)
    next_one(party(tmp_path, slice(0, 195)), other)


def test_an_opening_that_failed_notes_nothing(tmp_path):
    """Before, a folder refused a corrected file after a run that no party had begun."""
    other = party(None, slice(200, 400), "south", exact=ExactTerms(min_parties=3))
    with pytest.raises(PartyRefusedError, match="at least 3"):
        exact(party(tmp_path, slice(0, 180)), other)
    end_process(tmp_path)
    party(tmp_path, slice(0, 181)).close()


def test_the_rows_of_one_caller_s_runs_bind_those_of_every_caller(tmp_path):
    """A caller under two certificates would take the difference itself."""
    for n_rows in (180, 190):
        own, memory = party(tmp_path / "party", slice(0, n_rows)), MemoryAllowance(1 << 30)
        as_seen = own.for_caller(tmp_path / str(n_rows), MemoryStore(), set(), memory, OF_THIS_PROCESS)
        exact(as_seen, party(None, slice(200, 400), "south"))
        own.close()
    with pytest.raises(InvalidDataError, match="about 1 of"):
        party(tmp_path / "party", slice(0, 191))


def test_groups_of_rows_stay_as_they_were_when_rows_come_and_go(tmp_path):
    """A sum of SimFL is over rows that were summed together before, or over rows that never were."""
    other, seen = party(None, slice(200, 400), "south"), set()
    for state in (range(120), range(135), range(20, 135), RNG.permutation(np.arange(20, 150))):
        rows = np.asarray(state)
        own = party(tmp_path, rows)
        simfl(own, other)
        order, starts = own.simfl.groups.order, own.simfl.groups.starts
        groups = {frozenset(rows[part].tolist()) for part in np.split(order, starts[1:])}
        assert min(map(len, groups)) >= 3
        known = set().union(*seen)
        assert all(group in seen or not group & known for group in groups)
        assert len(set().union(*groups)) >= len(rows) - 5 * 20
        seen |= groups
        own.close()


def test_no_row_is_kept_in_clear(tmp_path):
    own = party(tmp_path, slice(0, 180))
    exact(own, party(None, slice(200, 400), "south"))
    own.close()
    content = (tmp_path / "horizontal.store").read_bytes()
    assert not any(value.tobytes() in content for value in X[:180].ravel().astype(np.float64))
    assert not any(row.tobytes() in content for row in X[:180])

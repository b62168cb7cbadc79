"""A forged ledger is read alike by the party and by the command that shows it, or refused by name."""

import json

import numpy as np
import pytest

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import bytes_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError
from lgb_dp.accounting.gaussian import composed_mu
from lgb_dp.accounting.unit import ONE_ROW
from lgb_dp.federated.ledger import BUDGET as KEPT_BUDGET
from lgb_dp.federated.ledger import CHARGES, LEDGER_FILE, ROLE, PartyLedger, read_ledger
from mutations import mutated_json
from veilboost.command_line import main

BUDGET = (1.0, 1e-6)
NOTE = {"run": "ab" * 16, "time": "2026-01-01T00:00:00+00:00", "what": "leaf sums", "mu": 0.05}
NOTE |= {"closeness": 1e-25, "neighbouring": "add or remove one row"}
COUNTS = [60, pytest.param(2000, marks=pytest.mark.slow)]


@pytest.fixture
def entries(tmp_path):
    """The entries of a ledger: the budget, and the charges after it."""
    ledger = PartyLedger(tmp_path, BUDGET)
    for _ in range(3):
        ledger.charge(bytes(32), NOTE, 0.2, BUDGET)
    store = ledger.store
    entries = [store.get(KEPT_BUDGET, ""), *store.entries(CHARGES, "")]
    ledger.close()
    return entries


def write(folder, entries):
    """A forged ledger: its first entry is its budget, every other one a charge; texts stand for JSON."""
    for path in folder.glob("ledger.store*"):
        path.unlink()
    store = StoreFile(folder / LEDGER_FILE, ROLE)
    for kind, entry in zip([KEPT_BUDGET, *[CHARGES] * (len(entries) - 1)], entries, strict=True):
        content = entry.encode() if isinstance(entry, str) else json.dumps(entry).encode()
        store.append(bytes_kind(kind.name), "", content)
    store.close()
    return contents(folder)


def contents(folder):
    store = StoreFile(folder / LEDGER_FILE, ROLE, read_only=True)
    found = [list(store.entries(bytes_kind(kind.name), "")) for kind in (KEPT_BUDGET, CHARGES)]
    store.close()
    return found


def outcome(read):
    """μ that a reader finds, or the error by which it refuses; any other error fails the test."""
    try:
        return read()
    except VeilboostError as error:
        return type(error)


def spent_of_the_party(folder):
    ledger = PartyLedger(folder)
    try:
        for run in (bytes(32), b"x" * 32):
            outcome(lambda run=run: ledger.check_run(run, 0.01, ONE_ROW, BUDGET))
        return composed_mu([charge["mu"] for charge in ledger.charges()])
    finally:
        ledger.close()


def spent_as_read(folder):
    sums = read_ledger(folder)
    assert sums.spent_epsilon >= 0
    return sums.spent_mu


def check_readers_agree(folder, content):
    by_party, read = outcome(lambda: spent_of_the_party(folder)), outcome(lambda: spent_as_read(folder))
    if isinstance(read, float):
        # Beyond 1e150 the square is no float.
        assert read > 1e150 or by_party == pytest.approx(read)
    else:
        assert by_party is read or by_party == 0  # an empty file is a new ledger to a party
    assert (main(["ledger", str(folder)]) == 0) == isinstance(read, float)
    assert contents(folder) == content
    return read


@pytest.mark.parametrize("count", COUNTS)
def test_forged_entries_are_read_alike_or_refused_by_name(tmp_path, entries, count, capsys):
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(count):
        place = rng.integers(len(entries))
        for text in mutated_json(entries[place], rng, 1):
            forged = [*entries[:place], text, *entries[place + 1 :]]
            refused += not isinstance(check_readers_agree(tmp_path, write(tmp_path, forged)), float)
    assert count / 2 < refused < count


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        *(
            ("about", "epsilon", value)
            for value in ("1e3", True, 0, -1.0, float("inf"), float("nan"), 10**400)
        ),
        *(("about", "delta", value) for value in (1, 2.0, 0.0, float("nan"), None)),
        *(("note", "mu", value) for value in ("0.05", -0.05, float("nan"), float("inf"), 10**400, False)),
        *(("note", "closeness", value) for value in (float("nan"), -1e9, None, [])),
        *(
            ("note", name, value)
            for name in ("run", "time", "what", "neighbouring")
            for value in (1, None, [])
        ),
    ],
)
def test_forged_numbers_and_texts_are_refused_by_both_readers(tmp_path, entries, where, name, value):
    (entries[0] if where == "about" else entries[2])[name] = value
    content = write(tmp_path, entries)
    for read in (PartyLedger, read_ledger):
        with pytest.raises(PartyArgumentError, match=f"damaged: {name}=.*(number|text)"):
            read(tmp_path)
    assert contents(tmp_path) == content


def test_a_ledger_with_charges_and_no_budget_is_refused_by_both_readers(tmp_path, entries):
    """Before, the party took the budget of its next run for that of all."""
    content = write(tmp_path, ["null", *entries[1:]])
    for read in (PartyLedger, read_ledger):
        with pytest.raises(PartyArgumentError, match="ledger is damaged"):
            read(tmp_path)
    assert contents(tmp_path) == content


@pytest.mark.parametrize("value", [None, True, 1.5, [], float("nan")])
def test_a_forged_charge_is_refused_by_both_readers(tmp_path, entries, value):
    entries[3]["session"] = value
    write(tmp_path, entries)
    for read in (PartyLedger, read_ledger):
        with pytest.raises(PartyArgumentError, match="ledger is damaged"):
            read(tmp_path)


def test_a_note_that_no_ledger_could_be_read_with_is_not_written(tmp_path):
    ledger = PartyLedger(tmp_path, BUDGET)
    before = contents(tmp_path)
    for name, value in (("closeness", float("nan")), ("mu", -0.01), ("time", None)):
        with pytest.raises(PartyArgumentError, match=name):
            ledger.charge(bytes(32), {**NOTE, name: value}, 0.2, BUDGET)
    assert contents(tmp_path) == before


def test_a_forged_unit_does_not_reach_the_terminal_as_it_is(tmp_path, entries, capsys):
    for head in entries[1:]:
        head["neighbouring"] = "row\x1b[2J"
    write(tmp_path, entries)
    assert main(["ledger", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert r"neighbouring='row\x1b[2J'" in printed.err
    assert "\x1b" not in printed.out + printed.err

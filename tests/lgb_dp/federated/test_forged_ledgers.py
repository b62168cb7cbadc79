"""A forged ledger is read alike by the party and by the command that shows it, or refused by name."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import bytes_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.secure_sum.answers import ABOUT, ATTEMPTS, ROLE
from lgb_dp.accounting.unit import ONE_ROW
from lgb_dp.errors import BudgetExceededError
from lgb_dp.federated.ledger import LEDGER_FILE, PartyLedger, read_ledger
from mutations import mutated_json
from veilboost.command_line import main

BUDGET = (1.0, 1e-6)
NOTE = {"run": "ab" * 16, "time": "2026-01-01T00:00:00+00:00", "what": "leaf sums", "mu": 0.05}
NOTE |= {"closeness": 1e-25, "neighbouring": "add or remove one row"}
COUNTS = [60, pytest.param(2000, marks=pytest.mark.slow)]


@pytest.fixture
def entries(tmp_path):
    """The entries of a ledger: what stands in the first line, and the answer after it."""
    ledger = PartyLedger(tmp_path, BUDGET)
    for number in range(3):
        ledger.answer(bytes(32), number, b"asked", NOTE, 0.2, BUDGET, lambda: b"answer")
    store = ledger.journal.store
    entries = [store.get(ABOUT, ""), *store.entries(ATTEMPTS, "")]
    ledger.journal.close()
    return entries


def write(folder, entries):
    """A forged ledger: its first entry is its subject, every other one an attempt; texts stand for JSON."""
    for path in folder.glob("ledger.store*"):
        path.unlink()
    store = StoreFile(folder / LEDGER_FILE, ROLE)
    for kind, entry in zip([ABOUT, *[ATTEMPTS] * (len(entries) - 1)], entries, strict=True):
        content = entry.encode() if isinstance(entry, str) else json.dumps(entry).encode()
        store.append(bytes_kind(kind.name), "", content)
    store.close()
    return contents(folder)


def contents(folder):
    store = StoreFile(folder / LEDGER_FILE, ROLE, read_only=True)
    found = [list(store.entries(bytes_kind(kind.name), "")) for kind in (ABOUT, ATTEMPTS)]
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
    spent = ledger.spent
    try:
        for run in (bytes(32), b"x" * 32):
            outcome(lambda run=run: ledger.check_run(run, 0.01, ONE_ROW, BUDGET))
    finally:
        ledger.journal.close()
    return spent


def spent_as_read(folder):
    sums = read_ledger(folder)
    assert sums.spent_epsilon >= 0
    return sums.spent_mu


def check_readers_agree(folder, content):
    by_party, read = outcome(lambda: spent_of_the_party(folder)), outcome(lambda: spent_as_read(folder))
    if isinstance(read, float):
        # Beyond 1e150 the square is no float.
        assert read > 1e150 or float(by_party) ** 0.5 == pytest.approx(read)
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
    (entries[0] if where == "about" else entries[2]["note"])[name] = value
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


def test_attack_by_an_attempt_that_is_written_twice_in_a_forged_ledger(tmp_path, entries):
    """Before, the party counted the cheap entry alone, and the command that shows the ledger both."""
    content = write(tmp_path, [*entries, {**entries[1], "note": {**NOTE, "mu": 0.001}}])
    for read in (PartyLedger, read_ledger):
        with pytest.raises(PartyArgumentError, match="ledger is damaged"):
            read(tmp_path)
    assert contents(tmp_path) == content


@pytest.mark.parametrize("name", ["session", "number", "asked", "note"])
@pytest.mark.parametrize("value", [None, True, 1.5, "x", [], float("nan")])
def test_a_forged_attempt_is_refused_by_both_readers(tmp_path, entries, name, value):
    entries[3][name] = value
    write(tmp_path, entries)
    for read in (PartyLedger, read_ledger):
        with pytest.raises(PartyArgumentError, match="ledger is damaged"):
            read(tmp_path)


def test_a_note_that_no_ledger_could_be_read_with_is_not_written(tmp_path):
    ledger = PartyLedger(tmp_path, BUDGET)
    before = contents(tmp_path)
    for name, value in (("closeness", float("nan")), ("mu", -0.01), ("time", None)):
        with pytest.raises(PartyArgumentError, match=name):
            ledger.answer(bytes(32), 1, b"asked", {**NOTE, name: value}, 0.2, BUDGET, lambda: b"answer")
    assert contents(tmp_path) == before


def test_a_forged_unit_does_not_reach_the_terminal_as_it_is(tmp_path, entries, capsys):
    for head in entries[1:]:
        head["note"]["neighbouring"] = "row\x1b[2J"
    write(tmp_path, entries)
    assert main(["ledger", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert r"neighbouring='row\x1b[2J'" in printed.err
    assert "\x1b" not in printed.out + printed.err


@pytest.mark.parametrize("place", ["file", "memory"])
def test_an_answer_that_was_kept_is_counted_whatever_fails_afterwards(tmp_path, monkeypatch, place):
    """Asked again, its answer is given: uncounted, it would be free."""
    ledger = PartyLedger(tmp_path if place == "file" else None, BUDGET)
    real = ledger.store.transaction

    @contextmanager
    def failing(**options):
        # A transaction within another one has no options here.
        with real(**options):
            yield
        if options:
            raise MemoryError

    note = {**NOTE, "mu": 0.1}
    arguments = (bytes(16), 1, b"asked", note, 0.1, BUDGET, lambda: b"answer")
    with monkeypatch.context() as patch:
        patch.setattr(ledger.store, "transaction", failing)
        with pytest.raises(MemoryError):
            ledger.answer(*arguments)
    assert ledger.answer(*arguments) == b"answer"
    with pytest.raises(BudgetExceededError, match="has spent it"):
        ledger.answer(bytes(16), 2, b"asked", note, 0.1, BUDGET, lambda: b"another")
    ledger.journal.close()

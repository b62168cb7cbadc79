"""A party's ledger: charges count if they are kept, once, and by one user at a time."""

import multiprocessing
import re
from types import SimpleNamespace

import pytest

import lgb_dp
from gbdt_commons.errors import StoreError
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from lgb_dp.accounting.unit import ONE_ROW, Unit
from lgb_dp.federated.ledger import CHARGES, LEDGER_FILE, Charges, PartyLedger, read_ledger

TWO_ROWS = Unit(rows=2)
NOTE = {
    **{"run": "00", "what": "leaf sums", "mu": 0.1, "closeness": 1e-30, "neighbouring": ONE_ROW.neighbouring},
    "time": "now",
}
BUDGET = (1.0, 1e-5)


def test_a_ledger_that_covers_two_units_is_not_read(tmp_path):
    ledger = PartyLedger(tmp_path)
    ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    ledger.store.append(CHARGES, "", {**ledger.charges()[0], "neighbouring": TWO_ROWS.neighbouring})
    ledger.close()
    both = re.escape(f"covers {ONE_ROW.neighbouring!r}, the run {TWO_ROWS.neighbouring!r}")
    with pytest.raises(lgb_dp.InvalidArgumentError, match=both):
        PartyLedger(tmp_path)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="covers 'add or remove one row'"):
        PartyLedger(tmp_path)  # the first one has let go of the folder


def test_the_ledger_counts_what_it_reads(tmp_path):
    ledger = PartyLedger(tmp_path)
    for _ in range(4):
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    with pytest.raises(lgb_dp.BudgetExceededError, match="run was granted"):
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    ledger.charge(b"s" * 16, NOTE, 0.2, BUDGET)
    with pytest.raises(lgb_dp.BudgetExceededError, match="budget is spent"):
        ledger.charge(b"t" * 16, {**NOTE, "mu": 0.2}, 0.3, BUDGET)
    ledger.close()
    again = PartyLedger(tmp_path)
    with pytest.raises(lgb_dp.BudgetExceededError, match="budget is spent"):
        again.charge(b"t" * 16, {**NOTE, "mu": 0.2}, 0.3, BUDGET)


def test_held_out_rows_and_the_others_of_a_run_cost_the_larger_of_both(tmp_path):
    ledger, held = PartyLedger(tmp_path), {**NOTE, "what": "held-out rows"}
    for note in (*[NOTE] * 3, *[held] * 4):
        ledger.charge(bytes(16), note, 0.2, BUDGET)
    with pytest.raises(lgb_dp.BudgetExceededError, match="run was granted"):
        ledger.charge(bytes(16), held, 0.2, BUDGET)
    ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    with pytest.raises(lgb_dp.BudgetExceededError, match="run was granted"):
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    ledger.charge(b"s" * 16, held, 0.2, BUDGET)
    assert read_ledger(tmp_path).spent_mu == pytest.approx(0.1 * 5**0.5)
    with pytest.raises(lgb_dp.BudgetExceededError, match="budget is spent"):
        ledger.charge(b"t" * 16, {**held, "mu": 0.2}, 0.3, BUDGET)


def test_a_run_that_is_opened_again_is_of_the_ledger_s_unit_and_pays_for_itself(tmp_path):
    """Also one whose number is known, with other settings; and one of two that began before any answer."""
    ledger = PartyLedger(tmp_path)
    ledger.check_run(b"s" * 16, 0.2, TWO_ROWS, BUDGET)
    ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="covers 'add or remove one row'"):
        ledger.check_run(bytes(16), 0.2, TWO_ROWS, BUDGET)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="covers 'add or remove one row'"):
        ledger.charge(b"s" * 16, {**NOTE, "neighbouring": TWO_ROWS.neighbouring}, 0.2, BUDGET)
    ledger.check_run(bytes(16), 0.26, ONE_ROW, BUDGET)
    with pytest.raises(lgb_dp.BudgetExceededError, match="run may cost"):
        ledger.check_run(b"s" * 16, 0.26, ONE_ROW, BUDGET)


@pytest.mark.parametrize("place", ["file", "memory"])
def test_a_charge_counts_if_its_transaction_is_kept(tmp_path, place):
    ledger = PartyLedger(tmp_path if place == "file" else None, BUDGET)

    def charge_twice(error):
        with ledger.store.transaction():
            for _ in range(2):
                ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
            raise error

    for error in (OSError("full"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            charge_twice(error)
        assert ledger.charges() == []
    for _ in range(4):
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    with pytest.raises(lgb_dp.BudgetExceededError, match="run was granted"):
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    ledger.close()
    with pytest.raises(ProtocolError):
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)


def _charge_in_child(ledger, queue):
    try:
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)
    except ProtocolError as error:
        queue.put(str(error))


def test_a_forked_process_does_not_charge():
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_charge_in_child, args=(PartyLedger(None), queue))
    child.start()
    assert "forked process" in queue.get(timeout=60)
    child.join(60)


def test_two_users_of_a_ledger_never_charge_both_whatever_is_removed(tmp_path):
    """The first one locks the ledger, and not only the file beside it."""
    ledger = PartyLedger(tmp_path)
    for beside in set(tmp_path.iterdir()) - {tmp_path / LEDGER_FILE}:
        beside.unlink()
    with pytest.raises(StoreError, match="cannot be used"):
        PartyLedger(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    PartyLedger(tmp_path).charge(bytes(16), NOTE, 0.2, BUDGET)
    with pytest.raises(StoreError, match="removed or replaced"):
        ledger.charge(bytes(16), NOTE, 0.2, BUDGET)


def test_an_empty_file_is_not_a_ledger(tmp_path):
    (tmp_path / LEDGER_FILE).touch()
    with pytest.raises(StoreError, match=r"store.*program"):
        read_ledger(tmp_path)
    (tmp_path / LEDGER_FILE).unlink()
    PartyLedger(tmp_path).close()
    with pytest.raises(PartyArgumentError, match="has no party's ledger"):
        read_ledger(tmp_path)


def test_errors_about_a_ledger_do_not_name_the_path(tmp_path):
    """Before, other organisations read where a party's folder is."""
    ledger, path = PartyLedger(tmp_path), tmp_path / LEDGER_FILE
    texts = [refusal_to_open(tmp_path)]
    ledger.close()
    path.write_bytes(b"damage" * 20)
    texts.append(refusal_to_open(tmp_path))
    path.unlink()
    StoreFile(path, "somebody else").close()
    texts.append(refusal_to_open(tmp_path))
    for text, words in zip(texts, ("is in use", "is damaged", "of somebody else, and not of"), strict=True):
        assert words in text
        assert f"'{LEDGER_FILE}'" in text
        assert str(tmp_path) not in text


def refusal_to_open(folder):
    with pytest.raises(StoreError) as caught:
        PartyLedger(folder)
    return str(caught.value)


def test_charges_name_the_run_and_keep_to_its_plan():
    said = []
    ledger = SimpleNamespace(charge=lambda *given: said.append(given))
    charges = Charges(ledger, b"run", 0.75, (1.0, 1e-5), ONE_ROW)
    charges("leaf sums", 0.5, 1e-9, round=3)
    ((run, note, granted, budget),) = said
    assert (run, granted, budget) == (b"run", 0.75, (1.0, 1e-5))
    assert note.pop("time").endswith("+00:00")
    assert note == {
        "run": b"run".hex(),
        "what": "leaf sums",
        "mu": 0.5,
        "closeness": 1e-9,
        "neighbouring": ONE_ROW.neighbouring,
        "round": 3,
    }

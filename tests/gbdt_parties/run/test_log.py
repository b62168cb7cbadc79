"""An attempt is answered once, and what was answered can be sent again."""

import multiprocessing

import pytest

from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore, json_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import ProtocolError, RunLostError
from gbdt_parties.run.log import MAX_RUNS, RunLog, runs_of
from kept_stores import cut_off, end_process, interrupting

RUN, PAID = bytes(16), json_kind("paid")


def opened(path):
    """The store that a log is in: in memory without a path."""
    return MemoryStore() if path is None else StoreFile(path, "a tester")


def answer(log, number=1, asked=b"what", content=b"the answer"):
    return log.answer(number, asked, lambda: content, lambda: log.runs.append(PAID, "", number))


def paid(log):
    return list(log.runs.entries(PAID, ""))


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return tmp_path / "ledger" if request.param == "file" else None


def test_a_lost_answer_is_sent_again_at_no_cost(path):
    log = RunLog(opened(path), RUN)
    assert answer(log) == b"the answer"
    assert answer(log, content=b"another") == b"the answer"
    assert paid(log) == [1]


def test_an_attempt_that_asks_something_else_or_is_before_the_last_one_is_refused(path):
    log = RunLog(opened(path), RUN)
    answer(log, 2)
    with pytest.raises(ProtocolError, match="attempt 2 was answered"):
        answer(log, 2, asked=b"something else")
    with pytest.raises(ProtocolError, match=r"attempt 1.*attempt 2"):
        answer(log, 1)
    answer(RunLog(log.runs, b"s" * 16), 2, asked=b"something else")
    assert paid(log) == [2, 2]
    assert [log.knows(number) for number in (1, 2, 3)] == [False, True, False]


def test_a_forked_process_answers_nothing():
    log, context = RunLog(MemoryStore(), RUN), multiprocessing.get_context("fork")
    answer(log)

    def ask(number):
        try:
            queue.put(answer(log, number))
        except ProtocolError as error:
            queue.put(str(error))

    queue = context.Queue()
    for number in (1, 2):
        context.Process(target=ask, args=(number,)).start()
        assert "forked process" in queue.get(timeout=60)


def test_an_error_before_the_answer_leaves_neither_a_charge_nor_an_answer(path):
    log = RunLog(opened(path), RUN)

    def fail():
        raise ValueError("no")

    def pay():
        log.runs.append(PAID, "", 1)

    for make, charge in ((fail, pay), (lambda: b"", fail)):
        with pytest.raises(ValueError, match="no"):
            log.answer(1, b"what", make, charge)
    assert not paid(log)
    assert answer(log, asked=b"now this") == b"the answer"


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_attempt_that_is_interrupted_as_it_is_kept_is_answered_and_paid_for_once(
    tmp_path, monkeypatch, when
):
    log = RunLog(opened(tmp_path / "ledger"), RUN)
    interrupting(monkeypatch, when)
    with pytest.raises(KeyboardInterrupt):
        answer(log, content=b"first")
    expected = b"first" if when == "after" else b"second"
    assert answer(log, content=b"second") == expected
    log.runs.close()
    again = RunLog(opened(tmp_path / "ledger"), RUN)
    assert answer(again, content=b"third") == expected
    assert paid(again) == [1]
    again.runs.close()


def test_the_same_bytes_after_a_restart(tmp_path):
    log = RunLog(opened(tmp_path / "ledger"), RUN)
    for number in range(5):
        answer(log, number, content=b"\n\0" * number)
    end_process(tmp_path)
    again = RunLog(opened(tmp_path / "ledger"), RUN)
    assert answer(again, 3, content=b"another") == b"\n\0" * 3
    with pytest.raises(ProtocolError, match="answered before"):
        answer(again, 3, asked=b"else")


def test_an_answer_cut_off_by_a_crash_was_never_sent(tmp_path):
    log = RunLog(opened(tmp_path / "ledger"), RUN)
    answer(log)
    answer(log, 2)
    again = RunLog(opened(cut_off(tmp_path / "ledger", tmp_path / "copy", -3)), RUN)
    assert paid(again) == [1]
    assert answer(again, 2, content=b"another") == b"another"


@pytest.mark.parametrize("how", ["damaged", "removed", "rolled back"])
def test_a_store_that_is_exchanged_while_in_use_answers_nothing_more(how, tmp_path):
    path = tmp_path / "ledger"
    log = RunLog(opened(path), RUN)
    backup = path.read_bytes()
    answer(log)
    if how == "damaged":
        with open(path, "r+b") as file:
            file.write(bytes([path.read_bytes()[0] ^ 1]))
    else:
        path.unlink()
        if how == "rolled back":
            path.write_bytes(backup)
    for number in (1, 2):
        with pytest.raises(StoreError, match="removed or replaced"):
            answer(log, number)


def test_a_run_that_ends_leaves_nothing(path):
    log = RunLog(opened(path), RUN)
    with pytest.raises(RunLostError, match="know the run"):
        log.begun()
    log.begin({"keys": "secret"})
    assert log.has_begun
    assert log.begun() == {"keys": "secret"}
    answer(log)
    log.sign_end(b"one end")
    log.sign_end(b"one end")
    with pytest.raises(ProtocolError, match="signed another"):
        log.sign_end(b"another end")
    log.end()
    assert not log.has_begun
    assert log.runs.kinds() == [PAID.name]
    log.begin({"keys": "secret"})
    log.end(stays_known=True)
    assert log.has_begun
    with pytest.raises(RunLostError, match="know the run"):
        log.begun()


def begun(runs, number, **record):
    log = RunLog(runs, bytes([number]) * 16)
    log.begin({"keys": "secret", **record}, MAX_RUNS)
    answer(log)
    return log


def test_the_oldest_runs_of_a_caller_are_removed_with_their_answers(path):
    store = opened(path)
    for caller in ("one", "other"):
        logs = [begun(runs_of(store, caller), k) for k in range(MAX_RUNS + 1)]
        assert [log.has_begun for log in logs] == [False, *[True] * MAX_RUNS]
        assert [log.knows(1) for log in logs] == [False, *[True] * MAX_RUNS]


@pytest.mark.parametrize("use", [RunLog.take_up, lambda log: log.keep(PAID, 1)])
def test_runs_that_were_used_since_they_began_are_not_the_oldest(path, use):
    runs = opened(path)
    logs = [begun(runs, k) for k in range(MAX_RUNS)]
    use(logs[0])
    begun(runs, MAX_RUNS)
    assert [log.has_begun for log in logs] == [True, False, *[True] * (MAX_RUNS - 2)]


def test_ended_runs_of_auditors_take_the_place_of_no_open_one(path):
    runs = opened(path)
    open_ones = [begun(runs, 100 + k) for k in range(MAX_RUNS - 1)]
    ended = []
    for k in range(MAX_RUNS + 1):
        ended.append(begun(runs, k, auditable=True))
        ended[-1].end_for_audit()
        with pytest.raises(RunLostError, match="know the run"):
            ended[-1].take_up()
    begun(runs, 200)
    assert all(log.has_begun for log in open_ones)
    assert [log.has_begun for log in ended] == [False, *[True] * MAX_RUNS]
    assert all(log.is_auditable and log.knows(1) for log in ended[1:])

"""An attempt is answered once, and what was answered can be sent again."""

import multiprocessing

import pytest

from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore, json_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.secure_sum.answers import (
    ANSWERS,
    ATTEMPTS,
    MAX_SESSIONS,
    ROLE,
    AnswerJournal,
    read_answered,
)
from kept_stores import cut_off, end_process, interrupting

SESSION = bytes(16)


def opened(path):
    """The store that a journal is in: in memory without a path."""
    return MemoryStore() if path is None else StoreFile(path, ROLE)


def answer(journal, number=1, asked=b"what", content=b"the answer", session=SESSION, note=None):
    return journal.once(session, number, asked, lambda: note or {"mu": 0.5}, lambda: content)


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return tmp_path / "ledger" if request.param == "file" else None


def test_a_lost_answer_is_sent_again(path):
    journal = AnswerJournal(opened(path), {})
    assert answer(journal) == b"the answer"
    assert answer(journal, content=b"another") == b"the answer"
    assert len(journal.answered) == 1


def test_an_attempt_that_asks_something_else_is_refused(path):
    journal = AnswerJournal(opened(path), {})
    answer(journal)
    with pytest.raises(ProtocolError, match="attempt 1 was answered"):
        answer(journal, asked=b"something else")
    answer(journal, asked=b"something else", session=b"s" * 16)
    assert len(journal.answered) == 2


def test_an_error_before_the_answer_leaves_nothing_behind(path):
    journal = AnswerJournal(opened(path), {})

    def fail():
        raise ValueError("no")

    for prepare, make in ((fail, lambda: b""), (dict, fail)):
        with pytest.raises(ValueError, match="no"):
            journal.once(SESSION, 1, b"what", prepare, make)
    assert journal.answered == []
    assert answer(journal, asked=b"now this") == b"the answer"


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_attempt_that_is_interrupted_as_it_is_kept_has_one_answer(tmp_path, monkeypatch, when):
    journal = AnswerJournal(opened(tmp_path / "ledger"), {})
    interrupting(monkeypatch, when)
    with pytest.raises(KeyboardInterrupt):
        answer(journal, content=b"first")
    expected = b"first" if when == "after" else b"second"
    assert len(journal.answered) == (when == "after")
    assert answer(journal, content=b"second") == expected
    journal.close()
    again = AnswerJournal(opened(tmp_path / "ledger"), {})
    assert len(again.answered) == 1
    assert answer(again, content=b"third") == expected
    again.close()


def test_the_same_bytes_after_a_restart(tmp_path):
    journal = AnswerJournal(opened(tmp_path / "ledger"), {"budget": 3})
    for number in range(5):
        answer(journal, number, content=b"\n\0" * number)
    journal.close()
    again = AnswerJournal(opened(tmp_path / "ledger"), {"budget": 4})
    assert again.about == {"budget": 3}
    assert answer(again, 3, content=b"another") == b"\n\0" * 3
    assert [one.number for one in again.answered] == list(range(5))
    with pytest.raises(ProtocolError, match="answered before"):
        answer(again, 3, asked=b"else")
    about, answered = read_answered(tmp_path / "ledger")
    assert about == {"budget": 3}
    assert answered == again.answered
    assert answered[0].note == {"mu": 0.5}


def test_an_answer_cut_off_by_a_crash_was_never_sent(tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(opened(path), {})
    answer(journal)
    answer(journal, 2)
    again = AnswerJournal(opened(cut_off(path, tmp_path / "copy", -3)), {})
    assert [one.number for one in again.answered] == [1]
    assert answer(again, 2, content=b"another") == b"another"


def test_damage_is_not_taken_for_an_empty_ledger(tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(opened(path), {})
    answer(journal)
    journal.close()
    content = path.read_bytes().replace(b"the answer", b"the_answer")
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        AnswerJournal(opened(path), {})
    with pytest.raises(StoreError, match="damaged"):
        read_answered(path)
    assert path.read_bytes() == content


def test_a_journal_that_cannot_be_read_is_let_go_of(tmp_path):
    store = opened(tmp_path / "ledger")
    store.append(ATTEMPTS, "", {"session": "no attempt"})
    with pytest.raises(PartyArgumentError):
        AnswerJournal(store, {})
    opened(tmp_path / "ledger").close()


def test_a_file_has_one_user(tmp_path):
    journal = AnswerJournal(opened(tmp_path / "ledger"), {})
    with pytest.raises(StoreError, match="in use"):
        AnswerJournal(opened(tmp_path / "ledger"), {})
    journal.close()
    AnswerJournal(opened(tmp_path / "ledger"), {})
    with pytest.raises(ProtocolError):
        answer(journal)


def test_without_a_file_answers_of_sessions_that_are_long_over_are_not_made_again():
    store = MemoryStore()
    journal = AnswerJournal(store, {})
    for session in range(MAX_SESSIONS + 1):
        answer(journal, session=bytes([session]) * 16)
    assert [store.size(ANSWERS, bytes([session]).hex() * 16) for session in (0, 1)] == [0, 1]
    assert answer(journal, session=bytes([1]) * 16, content=b"another") == b"the answer"
    with pytest.raises(ProtocolError, match="is over"):
        answer(journal, session=bytes(16))


def test_a_lost_answer_is_read_from_the_file_whoever_was_answered_meanwhile(tmp_path):
    journal = AnswerJournal(opened(tmp_path / "ledger"), {})
    for session in range(3 * MAX_SESSIONS):
        answer(journal, session=bytes([session]) * 16, content=b"\n%d" % session)
    for _ in range(2):
        for session in (0, MAX_SESSIONS, 3 * MAX_SESSIONS - 1):
            given = answer(journal, session=bytes([session]) * 16, content=b"another")
            assert given == b"\n%d" % session
        journal.close()
        journal = AnswerJournal(opened(tmp_path / "ledger"), {})


def test_an_answer_that_the_disk_has_damaged_is_not_given(tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(opened(path), {})
    answer(journal)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    with open(path, "r+b") as file:
        file.write(content)
    with pytest.raises(StoreError, match=r"'ledger'.*replaced"):
        answer(journal)


def test_the_first_answer_that_is_given_says_what_a_journal_is_about(path):
    journal = AnswerJournal(opened(path))

    def fail():
        raise ValueError("no")

    for prepare, make in ((fail, lambda: b""), (dict, fail)):
        with pytest.raises(ValueError, match="no"):
            journal.once(SESSION, 1, b"what", prepare, make, {"budget": 1})
    assert journal.about is None
    for budget in (2, 3):
        journal.once(SESSION, budget, b"what", dict, lambda: b"", {"budget": budget})
        assert journal.about == {"budget": 2}
    if path is not None:
        journal.close()
        assert AnswerJournal(opened(path)).about == read_answered(path)[0] == {"budget": 2}


def test_errors_do_not_name_the_path(tmp_path):
    """Before, other organisations read where a party's folder is."""
    path = tmp_path / "ledger"
    journal = AnswerJournal(opened(path), {})
    texts = [refusal_to_open(path)]
    journal.close()
    path.write_bytes(b"damage" * 20)
    texts.append(refusal_to_open(path))
    path.unlink()
    StoreFile(path, "somebody else").close()
    texts.append(refusal_to_open(path))
    for text, words in zip(texts, ("is in use", "is damaged", "of somebody else, and not of"), strict=True):
        assert words in text
        assert "'ledger'" in text
        assert str(tmp_path) not in text


def refusal_to_open(path):
    with pytest.raises(StoreError) as caught:
        AnswerJournal(opened(path), {})
    return str(caught.value)


def test_an_empty_file_is_not_a_ledger(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(StoreError, match=r"store.*program"):
        read_answered(tmp_path / "empty")
    StoreFile(tmp_path / "new", ROLE).close()
    with pytest.raises(PartyArgumentError, match="not a party's ledger"):
        read_answered(tmp_path / "new")


RECORD = {"session": "00" * 16, "number": 2, "asked": "00" * 32, "note": {}}


def test_a_record_of_an_attempt_is_read(path):
    journal = AnswerJournal(opened(path), {})
    answer(journal)
    journal.store.append(json_kind(ATTEMPTS.name), "", RECORD)
    if path is not None:
        journal.close()
        assert [one.number for one in AnswerJournal(opened(path), {}).answered] == [1, 2]


@pytest.mark.parametrize(
    "head",
    [
        *([], 7, {}, {"session": "x"}, None),
        *({**RECORD, "number": number} for number in (1.0, "1", True, None)),
        *({**RECORD, "note": note} for note in ([], "mu", None)),
        *({**RECORD, name: text} for name in ("session", "asked") for text in ("AB", "0 0", "xy")),
    ],
)
def test_a_record_that_is_no_attempt_is_damage(path, head):
    journal = AnswerJournal(opened(path), {})
    answer(journal)
    journal.store.append(json_kind(ATTEMPTS.name), "", head)
    if path is not None:
        journal.close()
        with pytest.raises(PartyArgumentError, match="ledger is damaged"):
            AnswerJournal(opened(path), {})


def _answer_in_child(journal, queue):
    try:
        answer(journal, 7)
    except ProtocolError as error:
        queue.put(str(error))


def test_a_forked_process_does_not_answer():
    journal = AnswerJournal(MemoryStore(), {})
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_answer_in_child, args=(journal, queue))
    child.start()
    assert "forked process" in queue.get(timeout=60)
    child.join(60)


def test_two_users_never_answer_both_whatever_is_removed(tmp_path):
    """The first one locks the ledger, and not only the file beside it."""
    journal = AnswerJournal(opened(tmp_path / "ledger"), {})
    for beside in set(tmp_path.iterdir()) - {tmp_path / "ledger"}:
        beside.unlink()
    with pytest.raises(StoreError, match="'ledger' cannot be used"):
        AnswerJournal(opened(tmp_path / "ledger"), {})
    for path in tmp_path.iterdir():
        path.unlink()
    answer(AnswerJournal(opened(tmp_path / "ledger"), {}))
    with pytest.raises(StoreError, match="removed or replaced"):
        answer(journal)


@pytest.mark.parametrize("how", ["removed", "rolled back", "rolled back in place"])
def test_a_ledger_that_is_exchanged_while_in_use_answers_nothing_more(how, tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(opened(path), {})
    backup = path.read_bytes()
    answer(journal)
    if how != "rolled back in place":
        path.unlink()
    if how != "removed":
        path.write_bytes(backup)
    with pytest.raises(StoreError, match="removed or replaced"):
        answer(journal, number=2)
    assert len(journal.answered) == 1


def test_an_answer_that_could_not_be_kept_was_not_given(path, monkeypatch):
    journal = AnswerJournal(opened(path))
    write, n_written = journal.store.write_entry, []

    def full(*args):
        n_written.append(args)
        if len(n_written) == n_before + 1:
            raise OSError(28, "No space left on device")
        write(*args)

    monkeypatch.setattr(journal.store, "write_entry", full)
    for n_before in range(3):
        n_written.clear()
        with pytest.raises(OSError, match="No space"):
            journal.once(SESSION, 1, b"what", dict, lambda: b"lost", {"budget": n_before})
        assert (journal.answered, journal.about) == ([], None)
    n_before = 3
    n_written.clear()
    assert journal.once(SESSION, 1, b"what", dict, lambda: b"given", {"budget": 7}) == b"given"
    assert journal.about == {"budget": 7}
    if path is not None:
        end_process(path.parent)
        about, answered = read_answered(path)
        assert (about, len(answered)) == ({"budget": 7}, 1)

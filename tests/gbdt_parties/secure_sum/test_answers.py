"""An attempt is answered once, and what was answered can be sent again."""

import multiprocessing

import pytest

from gbdt_parties._entries import entry_of
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.secure_sum.answers import MAX_SESSIONS, AnswerJournal, read_answered

SESSION = bytes(16)


def answer(journal, number=1, asked=b"what", content=b"the answer", session=SESSION, note=None):
    return journal.once(session, number, asked, lambda: note or {"mu": 0.5}, lambda: content)


@pytest.fixture(params=["memory", "file"])
def path(request, tmp_path):
    return tmp_path / "ledger" if request.param == "file" else None


def test_a_lost_answer_is_sent_again(path):
    journal = AnswerJournal(path, {})
    assert answer(journal) == b"the answer"
    assert answer(journal, content=b"another") == b"the answer"
    assert len(journal.answered) == 1


def test_an_attempt_that_asks_something_else_is_refused(path):
    journal = AnswerJournal(path, {})
    answer(journal)
    with pytest.raises(ProtocolError, match="attempt 1 was answered before"):
        answer(journal, asked=b"something else")
    answer(journal, asked=b"something else", session=b"s" * 16)
    assert len(journal.answered) == 2


def test_an_error_before_the_answer_leaves_nothing_behind(path):
    journal = AnswerJournal(path, {})

    def fail():
        raise ValueError("no")

    for prepare, make in ((fail, lambda: b""), (dict, fail)):
        with pytest.raises(ValueError, match="no"):
            journal.once(SESSION, 1, b"what", prepare, make)
    assert journal.answered == []
    assert answer(journal, asked=b"now this") == b"the answer"


def test_the_same_bytes_after_a_restart(tmp_path):
    journal = AnswerJournal(tmp_path / "ledger", {"budget": 3})
    for number in range(5):
        answer(journal, number, content=b"\n\0" * number)
    journal.close()
    again = AnswerJournal(tmp_path / "ledger", {"budget": 4})
    assert again.about == {"budget": 3}
    assert answer(again, 3, content=b"another") == b"\n\0" * 3
    assert [one.number for one in again.answered] == list(range(5))
    with pytest.raises(ProtocolError, match="answered before"):
        answer(again, 3, asked=b"else")
    about, answered = read_answered(tmp_path / "ledger")
    assert about == {"budget": 3}
    assert answered == again.answered
    assert answered[0].note == {"mu": 0.5}


def test_an_entry_cut_off_by_a_crash_was_never_sent(tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(path, {})
    answer(journal)
    answer(journal, 2)
    journal.close()
    path.write_bytes(path.read_bytes()[:-3])
    again = AnswerJournal(path, {})
    assert [one.number for one in again.answered] == [1]
    assert answer(again, 2, content=b"another") == b"another"


def test_damage_is_not_taken_for_an_empty_ledger(tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(path, {})
    answer(journal)
    journal.close()
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(PartyArgumentError, match="damaged"):
        AnswerJournal(path, {})
    with pytest.raises(PartyArgumentError, match="damaged"):
        read_answered(path)


def test_a_file_has_one_user(tmp_path):
    journal = AnswerJournal(tmp_path / "ledger", {})
    with pytest.raises(PartyArgumentError, match="in use"):
        AnswerJournal(tmp_path / "ledger", {})
    journal.close()
    AnswerJournal(tmp_path / "ledger", {})
    with pytest.raises(ProtocolError):
        answer(journal)


def test_without_a_file_answers_of_sessions_that_are_long_over_are_not_made_again():
    journal = AnswerJournal(None, {})
    for session in range(MAX_SESSIONS + 1):
        answer(journal, session=bytes([session]) * 16)
    assert answer(journal, session=bytes([1]) * 16, content=b"another") == b"the answer"
    with pytest.raises(ProtocolError, match="is over"):
        answer(journal, session=bytes(16))


def test_a_lost_answer_is_read_from_the_file_whoever_was_answered_meanwhile(tmp_path):
    journal = AnswerJournal(tmp_path / "ledger", {})
    for session in range(3 * MAX_SESSIONS):
        answer(journal, session=bytes([session]) * 16, content=b"\n%d" % session)
    for _ in range(2):
        for session in (0, MAX_SESSIONS, 3 * MAX_SESSIONS - 1):
            given = answer(journal, session=bytes([session]) * 16, content=b"another")
            assert given == b"\n%d" % session
        journal.close()
        journal = AnswerJournal(tmp_path / "ledger", {})


def test_an_answer_that_the_disk_has_damaged_is_not_given(tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(path, {})
    answer(journal)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    with open(path, "r+b") as file:
        file.write(content)
    with pytest.raises(ProtocolError, match="attempt 1 is damaged on the party's disk"):
        answer(journal)


def test_the_first_answer_that_is_given_says_what_a_journal_is_about(path):
    journal = AnswerJournal(path)

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
        assert AnswerJournal(path).about == read_answered(path)[0] == {"budget": 2}


def test_errors_do_not_name_the_path(tmp_path):
    """Before, other organisations read where a party's folder is."""
    path = tmp_path / "ledger"
    journal = AnswerJournal(path, {})
    texts = [refusal_to_open(path)]
    journal.close()
    path.write_bytes(b"damage" * 20)
    texts.append(refusal_to_open(path))
    path.write_bytes(entry_of(b'{"format": 7}\n'))
    texts.append(refusal_to_open(path))
    assert [" ".join(text.split()[3:6]) for text in texts] == [
        "is in use",
        "is damaged: its",
        "is of format",
    ]
    assert not any(str(tmp_path) in text for text in texts)


def refusal_to_open(path):
    with pytest.raises(PartyArgumentError) as caught:
        AnswerJournal(path, {})
    return str(caught.value)


def test_an_empty_file_is_not_a_ledger(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(PartyArgumentError, match="not a party's ledger"):
        read_answered(tmp_path / "empty")


def _answer_in_child(journal, queue):
    try:
        answer(journal, 7)
    except ProtocolError as error:
        queue.put(str(error))


def test_a_forked_process_does_not_answer():
    journal = AnswerJournal(None, {})
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_answer_in_child, args=(journal, queue))
    child.start()
    assert "forked process" in queue.get(timeout=20)
    child.join(20)


def test_two_users_never_answer_both_whatever_is_removed(tmp_path):
    journal = AnswerJournal(tmp_path / "ledger", {})
    for beside in set(tmp_path.iterdir()) - {tmp_path / "ledger"}:
        beside.unlink()
    answer(AnswerJournal(tmp_path / "ledger", {}))
    with pytest.raises(ProtocolError, match="removed or replaced"):
        answer(journal)


@pytest.mark.parametrize("how", ["removed", "rolled back"])
def test_a_ledger_that_is_exchanged_while_in_use_answers_nothing_more(how, tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(path, {})
    backup = path.read_bytes()
    answer(journal)
    path.unlink()
    if how == "rolled back":
        path.write_bytes(backup)
    with pytest.raises(ProtocolError, match="removed or replaced"):
        answer(journal, number=2)
    assert len(journal.answered) == 1


def test_a_ledger_that_is_rolled_back_in_place_answers_nothing_more(tmp_path):
    path = tmp_path / "ledger"
    journal = AnswerJournal(path, {})
    backup = path.read_bytes()
    answer(journal)
    path.write_bytes(backup)
    with pytest.raises(ProtocolError):
        answer(journal, number=2)

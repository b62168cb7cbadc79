"""The driver of mutants: forked processes, groups, reasons and tables."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from audits import mutation  # noqa: E402


def test_aforked_process_says_what_it_found_or_is_ended():
    assert mutation.forked(lambda: 3, 30.0) == 3
    assert mutation.forked(lambda: 1 / 0, 30.0) == mutation.KILLED
    assert mutation.forked(lambda: __import__("time").sleep(60), 0.2) is None


def test_a_reason_belongs_to_a_module_and_is_more_than_a_word():
    for (module, function, change), reason in mutation.answers().items():
        assert (ROOT / module).exists()
        assert " -> " in change, function
        assert len(reason.split()) > 3


def test_groups_name_files_that_exist():
    for group in mutation.GROUPS.values():
        assert all((ROOT / name).exists() for name in (*group.modules, *group.tests))


def test_the_table_keeps_what_the_first_run_killed(monkeypatch):
    reasons = {("a.py", "f", "1 -> 2"): "the same behaviour for every input"}
    monkeypatch.setattr(mutation, "answers", lambda: reasons)

    def seen(change, module="a.py", **outcomes):
        return {"group": "noise", "module": module, "function": "f", "change": change, "of": 9, **outcomes}

    results = [
        seen("1 -> 2", outcome="survived"),
        seen("2 -> 3", outcome="killed"),
        seen("3 -> 4", outcome="timeout"),
        seen("4 -> 5", outcome="killed", **{"at first": "survived"}),
        seen("5 -> 6", outcome="unreached"),
        seen("6 -> 7", outcome="unfit"),
        seen("1 -> 2", module="b.py", outcome="killed"),
    ]
    whole = ("18", "6", "3", "4", "1", "1", "60")
    assert mutation.rows(results) == [
        ("a.py", "9", "5", "2", "3", "1", "1", "50"),
        ("b.py", "9", "1", "1", "1", "0", "0", "100"),
        ("noise", *whole),
        ("all", *whole),
    ]
    assert all(len(row) == len(mutation.COLUMNS) for row in mutation.rows(results))

"""A mutant changes what it says it changes, and nothing else."""

import importlib
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from audits.mutants import mutants, mutated, put_constant, put_in_place  # noqa: E402

SOURCE = '''
LIMIT = 3

def check(value, least=1, *, text="no"):
    """A text that is not changed: 1 + 1."""
    if value < least or not value:
        raise ValueError(f"{value} is less than {least + 1}")
    note(value, times=2)
    return [value + LIMIT][0:1]
'''
CHANGES = {
    ("", "3 -> 4"),
    ("check", "value < least or not value -> value < least and (not value)"),
    ("check", "value < least -> value <= least"),
    ("check", "not value -> value"),
    ("check", "raise ValueError(f'{value} is less than {least + 1}') -> pass"),
    ("check", "note(value, times=2) -> pass"),
    ("check", "note(value, times=2) -> note(value)"),
    ("check", "2 -> 3"),
    ("check", "return [value + LIMIT][0:1] -> return None"),
    ("check", "value + LIMIT -> value - LIMIT"),
    ("check", "0:1 -> 0 + 1:1"),
    ("check", "0:1 -> 0:1 + 1"),
    ("check", "0 -> 1"),
    ("check", "1 -> 2"),
}


def test_every_operator_guard_constant_and_argument_is_changed_once():
    found = [(mutant.function, mutant.change) for mutant in mutants(SOURCE, "module")]
    assert len(found) == len(set(found))
    assert set(found) == CHANGES


def test_functions_that_others_hold_get_the_changed_code(tmp_path):
    path, names = tmp_path / "module.py", {"note": lambda value, times: None}
    exec(compile(SOURCE, str(path), "exec"), names)
    held = names["check"]
    (number,) = (
        one.number for one in mutants(SOURCE, "m") if one.change == "value < least -> value <= least"
    )
    assert held(1) == [4]
    put_in_place(mutated(SOURCE, number), path, [held])
    with pytest.raises(ValueError, match="1 is less than 2"):
        held(1)
    assert held(2) == [5]


def test_constants_are_changed_wherever_they_were_imported(tmp_path, monkeypatch):
    path = tmp_path / "module_of_a_limit.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_of_a_limit")
    user = type(sys)("user_of_a_limit")
    user.LIMIT = module.LIMIT
    monkeypatch.setitem(sys.modules, "user_of_a_limit", user)
    monkeypatch.setitem(sys.modules, "module_of_a_limit", module)
    put_constant(mutated(SOURCE, 0), 2, path)
    assert module.LIMIT == user.LIMIT == 4

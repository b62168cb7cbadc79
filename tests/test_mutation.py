"""The driver of mutants changes what it says it changes, and nothing else."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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


@pytest.fixture(scope="module")
def driver():
    spec = importlib.util.spec_from_file_location("mutation_driver", ROOT / "audits" / "mutation.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for it
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def test_every_operator_guard_constant_and_argument_is_changed_once(driver):
    found = [(mutant.function, mutant.change) for mutant in driver.mutants(SOURCE, "module")]
    assert len(found) == len(set(found))
    assert set(found) == CHANGES


def test_functions_that_others_hold_get_the_changed_code(driver, tmp_path):
    path, names = tmp_path / "module.py", {"note": lambda value, times: None}
    exec(compile(SOURCE, str(path), "exec"), names)
    held = names["check"]
    (number,) = (
        one.number for one in driver.mutants(SOURCE, "m") if one.change == "value < least -> value <= least"
    )
    assert held(1) == [4]
    driver.put_in_place(driver.mutated(SOURCE, number), path, [held])
    with pytest.raises(ValueError, match="1 is less than 2"):
        held(1)
    assert held(2) == [5]


def test_constants_are_changed_wherever_they_were_imported(driver, tmp_path, monkeypatch):
    path = tmp_path / "module_of_a_limit.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("module_of_a_limit")
    user = type(sys)("user_of_a_limit")
    user.LIMIT = module.LIMIT
    monkeypatch.setitem(sys.modules, "user_of_a_limit", user)
    monkeypatch.setitem(sys.modules, "module_of_a_limit", module)
    driver.put_constant(driver.mutated(SOURCE, 0), 2, path)
    assert module.LIMIT == user.LIMIT == 4


def test_a_forked_process_says_what_it_found_or_is_ended(driver):
    assert driver._forked(lambda: 3, 30.0) == 3
    assert driver._forked(lambda: 1 / 0, 30.0) == driver.KILLED
    assert driver._forked(lambda: __import__("time").sleep(60), 0.2) is None


def test_a_reason_belongs_to_a_module_and_is_more_than_a_word(driver):
    for (module, function, change), reason in driver.answers().items():
        assert (ROOT / module).exists()
        assert " -> " in change, function
        assert len(reason.split()) > 3


def test_groups_name_files_that_exist(driver):
    for group in driver.GROUPS.values():
        assert all((ROOT / name).exists() for name in (*group.modules, *group.tests))

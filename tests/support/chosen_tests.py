"""Which tests a run chooses: those that another host may break, and parts of the slow ones."""

import ast
from functools import cache
from pathlib import Path

HOSTS = {"lightgbm", "xgboost", "sklearn", "numba", "inspect"}
FOLDERS = ("gbdt_hosts", "gbdt_kernels", "gbdt_commons")
TESTS = Path(__file__).parents[1]


@cache
def depends_on_hosts(path):
    """Whether another Python, LightGBM, XGBoost or NumPy may break the tests of a file.

    These are the tests of the rooms that touch them, of what imports them, and of docstrings, from which
    Python 3.13 began to strip the indentation.
    """
    if path.relative_to(TESTS).parts[0] in FOLDERS:
        return True
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return bool({name.partition(".")[0] for name in names} & HOSTS) or "__doc__" in text


def part_of(items, wanted):
    """The items of a part such as "2/6", dealt out one by one: long files are spread over all parts."""
    number, _, n_parts = wanted.partition("/")
    if not (number.isdecimal() and n_parts.isdecimal() and 1 <= int(number) <= int(n_parts)):
        raise ValueError(f"--part {wanted}: expected K/N with 1 <= K <= N, such as 2/6")
    return items[int(number) - 1 :: int(n_parts)]

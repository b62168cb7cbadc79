"""Which tests a run chooses: those that another host may break, and parts of the slow ones."""

import ast
import re
from functools import cache
from pathlib import Path

HOSTS = {"lightgbm", "xgboost", "sklearn", "numba", "inspect"}
FOLDERS = ("gbdt_hosts", "gbdt_kernels", "gbdt_commons")
TESTS = Path(__file__).parents[1]
NAMED = re.compile(rf"\b(?:import|from)\b.*\b(?:{'|'.join(sorted(HOSTS))})\b")
"""A line that may import one of them: files without any need not be parsed, which takes most of the time."""


@cache
def depends_on_hosts(path):
    """Whether another Python, LightGBM, XGBoost or NumPy may break the tests of a file.

    These are the tests of the rooms that touch them, of what imports them, and of docstrings, from which
    Python 3.13 began to strip the indentation.
    """
    if path.relative_to(TESTS).parts[0] in FOLDERS:
        return True
    text = path.read_text(encoding="utf-8")
    if "__doc__" in text:
        return True
    return bool(NAMED.search(text)) and any(map(_imports_host, ast.walk(ast.parse(text))))


def _imports_host(node):
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.partition(".")[0] in HOSTS for name in names)


def part_of(items, wanted):
    """The items of a part such as "2/6", dealt out one by one: long files are spread over all parts."""
    number, _, n_parts = wanted.partition("/")
    if not (number.isdecimal() and n_parts.isdecimal() and 1 <= int(number) <= int(n_parts)):
        raise ValueError(f"--part {wanted}: expected K/N with 1 <= K <= N, such as 2/6")
    return items[int(number) - 1 :: int(n_parts)]

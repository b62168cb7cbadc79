"""No kernel of transfers branches on a secret or uses one as an index: read off their source.

All elements of arrays count as secrets, and everything that is computed from them; shapes, sizes and numbers
that are passed do not.
"""

import ast
from pathlib import Path

import pytest

from gbdt_kernels import transfers

FILES = sorted(Path(transfers.__file__).parent.glob("*.py"))


def reads_of(node):
    """Elements of arrays that an expression reads; shapes are not elements."""
    shapes = {
        id(inner)
        for part in ast.walk(node)
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Attribute)
        for inner in ast.walk(part)
    }
    return [part for part in ast.walk(node) if isinstance(part, ast.Subscript) and id(part) not in shapes]


def names_of(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def secrets_of(function):
    """Names that are assigned something read from an array, or computed from such a name."""
    secret, before = set(), None
    while before != secret:
        before = set(secret)
        for node in ast.walk(function):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = set().union(*(names_of(t) for t in targets if not isinstance(t, ast.Subscript)))
                if reads_of(node.value) or names_of(node.value) & secret:
                    secret |= names
    return secret


def decisions_of(function):
    """Expressions that decide where a kernel goes, and where it reads and writes."""
    for node in ast.walk(function):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test
        elif isinstance(node, ast.For):
            yield node.iter
        elif isinstance(node, ast.Subscript) and not isinstance(node.value, ast.Attribute):
            yield node.slice
        elif isinstance(node, ast.BoolOp | ast.Compare):
            yield node


def leaks_of(source):
    found = []
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            secret = secrets_of(function)
            for decision in decisions_of(function):
                if reads_of(decision) or names_of(decision) & secret:
                    found.append(f"{function.name}: {ast.unparse(decision)}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_secrets_decide_nothing(path):
    assert leaks_of(path.read_text()) == []


def test_kernels_are_found():
    text = "".join(path.read_text() for path in FILES)
    assert text.count("@kernel") >= 10


@pytest.mark.parametrize(
    "line",
    [
        "sums[leaf[i]] += 1",
        "x = leaf[i]\n    y = x + 1\n    sums[y] = 0",
        "if leaf[i]:\n        sums[0] = 1",
        "x = leaf[i]\n    sums[0] = 1 if x else 2",
        "for j in range(leaf[i]):\n        sums[j] = 0",
        "while leaf[i] > 0:\n        pass",
        "b = leaf[i] == 3",
    ],
)
def test_leaks_would_be_found(line):
    assert leaks_of(f"def f(leaf, i, sums):\n    {line}\n")
    assert leaks_of("def f(leaf, n):\n    for i in range(leaf.shape[0]):\n        leaf[i] ^= n\n") == []

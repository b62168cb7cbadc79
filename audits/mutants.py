"""Mutants of a module: one small change of its syntax tree each, and how loaded code gets the change.

A change is of an operator, constant, argument, guard, slice or call inside a function, or of a constant of
the module.  Default arguments, decorators, class bodies, annotations and texts are left alone.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType

TEXTS = {"__repr__", "__str__", "_repr_html_", "to_text", "summary"}
"""Functions whose values are read by people."""
FLIPS: dict[type[ast.AST], type[ast.AST]] = {
    **{
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
    },
    **{
        ast.In: ast.NotIn,
        ast.NotIn: ast.In,
        ast.Is: ast.IsNot,
        ast.IsNot: ast.Is,
        ast.And: ast.Or,
        ast.Or: ast.And,
    },
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr, ast.MatMult: ast.Add},
}
TWINS = {"min": "max", "minimum": "maximum", "floor": "ceil", "any": "all", "argmin": "argmax"}
TWINS |= {second: first for first, second in TWINS.items()}


@dataclass(frozen=True)
class Mutant:
    """One change: in which function, on which lines a test must be to notice it, and what becomes what."""

    module: str
    number: int
    function: str
    lines: tuple[int, int]
    change: str


def _plus_one(node: ast.expr) -> ast.expr:
    return ast.BinOp(node, ast.Add(), ast.Constant(1))


def _replacements(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes to put in place of one node."""
    match node:
        case ast.Compare(ops=operators):
            for place, operator in enumerate(operators):
                flipped = [*operators[:place], FLIPS[type(operator)](), *operators[place + 1 :]]
                yield ast.Compare(node.left, flipped, node.comparators)
        case ast.BoolOp():
            yield ast.BoolOp(FLIPS[type(node.op)](), node.values)
        case ast.BinOp():
            yield ast.BinOp(node.left, FLIPS[type(node.op)](), node.right)
        case ast.AugAssign() if type(node.op) in FLIPS:
            yield ast.AugAssign(node.target, FLIPS[type(node.op)](), node.value)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(node.value + 1 if node.value == int(node.value) else 2 * node.value)
        case ast.Slice():
            if node.lower is not None:
                yield ast.Slice(_plus_one(node.lower), node.upper, node.step)
            if node.upper is not None:
                yield ast.Slice(node.lower, _plus_one(node.upper), node.step)
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Raise() | ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Call(func=ast.Name(id="TypeVar" | "NewType" | "cast")):
            return
        case ast.Call():
            name = node.func
            if isinstance(name, ast.Name) and name.id in TWINS:
                yield ast.Call(ast.Name(TWINS[name.id], ast.Load()), node.args, node.keywords)
            elif isinstance(name, ast.Attribute) and name.attr in TWINS:
                yield ast.Call(
                    ast.Attribute(name.value, TWINS[name.attr], ast.Load()), node.args, node.keywords
                )
            for place, keyword in enumerate(node.keywords):
                if keyword.arg not in (None, "strict"):
                    yield ast.Call(
                        node.func, node.args, [*node.keywords[:place], *node.keywords[place + 1 :]]
                    )


def _children(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.AST]]:
    """The parts of a node that may be changed, each with its place: no texts, annotations or defaults."""
    skipped: set[str] = set()
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        skipped = {"args", "decorator_list", "returns"}
    elif isinstance(node, ast.Raise | ast.JoinedStr | ast.ImportFrom | ast.Import):
        return
    elif isinstance(node, ast.AnnAssign):
        skipped = {"annotation"}
    elif isinstance(node, ast.Lambda):
        skipped = {"args"}
    elif isinstance(node, ast.keyword) and node.arg == "strict":
        return
    elif isinstance(node, ast.ClassDef):
        skipped = {"bases", "keywords", "decorator_list"}
    for name, value in ast.iter_fields(node):
        if name in skipped:
            continue
        if isinstance(value, ast.AST):
            yield node, name, None, value
        elif isinstance(value, list):
            yield from (
                (node, name, place, item) for place, item in enumerate(value) if isinstance(item, ast.AST)
            )


def _sites(
    tree: ast.Module,
) -> Iterator[tuple[ast.AST, str, int | None, ast.AST, ast.AST, str, tuple[int, int]]]:
    """Every change in the order of the source: its place, the node, what replaces it, the function, lines."""

    def visit(node: ast.AST, function: tuple[str, ...], inside: bool, lines: tuple[int, int]):
        for parent, name, place, child in _children(node):
            within, held, where = function, inside, lines
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if child.name in TEXTS:
                    continue
                within, held = (*function, child.name), not isinstance(child, ast.ClassDef)
            elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.stmt):
                body = getattr(child, "body", None)
                end = body[0].lineno - 1 if body else child.end_lineno or child.lineno
                where = (child.lineno, max(end, child.lineno))
            # A class body has run long before; a constant of the module can be set anew.
            if held or (not function and not isinstance(child, ast.stmt)):
                for new in _replacements(child):
                    yield parent, name, place, child, new, ".".join(within), where
            yield from visit(child, within, held, where)

    yield from visit(tree, (), False, (1, 1))


def mutants(source: str, module: str) -> list[Mutant]:
    """All mutants of a module."""
    found = []
    for number, (_, _, _, old, new, function, lines) in enumerate(_sites(ast.parse(source))):
        before, after = (
            " ".join(ast.unparse(ast.fix_missing_locations(node)).split()) for node in (old, new)
        )
        found.append(Mutant(module, number, function, lines, f"{before} -> {after}"))
    return found


def mutated(source: str, number: int) -> ast.Module:
    """The syntax tree of a module with one of its changes."""
    tree = ast.parse(source)
    for place, (parent, name, index, old, new, _, _) in enumerate(_sites(tree)):
        if place == number:
            ast.copy_location(new, old)
            if index is None:
                setattr(parent, name, new)
            else:
                getattr(parent, name)[index] = new
            return ast.fix_missing_locations(tree)
    raise IndexError(f"number={number}: the module has {place + 1} mutants")


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _name_of(code: CodeType) -> tuple[str, int]:
    # Python 3.10 has no qualified names of code.
    return getattr(code, "co_qualname", code.co_name), code.co_firstlineno


def put_in_place(tree: ast.Module, path: Path, functions: list[FunctionType]) -> None:
    """Give the functions of a loaded module the code of a changed tree, and its constants their values.

    Raises
    ------
    ValueError
        A changed function uses other names of the function around it.
    """
    changed = {_name_of(code): code for code in _codes(compile(tree, str(path), "exec"))}
    for function in functions:
        code = changed.get(_name_of(function.__code__))
        if code is not None and code != function.__code__:
            function.__code__ = code


def put_constant(tree: ast.Module, line: int, path: Path) -> None:
    """Set a changed constant wherever a module has imported it."""
    (module,) = (
        module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == str(path)
    )
    statement = next(node for node in tree.body if node.lineno == line)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
    if not isinstance(target, ast.Name):
        raise ValueError(f"line {line}: expected a constant with one name")
    values = dict(vars(module))
    exec(compile(ast.Module([statement], []), str(path), "exec"), values)
    old = vars(module)[target.id]
    for other in list(sys.modules.values()):
        if getattr(other, "__dict__", {}).get(target.id, statement) is old:
            setattr(other, target.id, values[target.id])

"""Sphinx extension that writes the pages which follow from the code.

Before Sphinx reads its sources, it writes ``docs/generated``: the reference of the public names of `lgb_dp`
and `xgb_fed` from their ``__all__``, a short table of every internal module, the tables of the wire protocol
from the classes of messages, and those of plan files from the sections.  New names, messages and entries
therefore appear by themselves.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

import plan_reference
from sphinx.pycode import ModuleAnalyzer

PUBLIC = {
    "lgb_dp": "Differentially private gradient boosting inside `lightgbm.train`.",
    "lgb_dp.dask": "`lgb_dp` on the rows of a Dask cluster.",
    "lgb_dp.spark": "`lgb_dp` on the rows of a Spark data frame.",
    "xgb_fed": "XGBoost models trained across organisations.",
    "xgb_fed.dask": "`xgb_fed` on Dask clusters.",
    "lgb_dp.federated": "Private training across organisations that have different rows.",
    "lgb_dp.vertical": "Private training by two organisations that have different columns.",
}
"""What several packages have is described with the first of them."""
INTERNAL = ["lgb_dp", "xgb_fed", "gbdt_parties", "gbdt_kernels", "gbdt_commons", "gbdt_hosts", "veilboost"]
MESSAGE_MODULES = {
    "session": ["gbdt_parties.messages"],
    "alignment": ["gbdt_parties.identity.alignment_messages"],
    "vertical": ["xgb_fed.vertical.protocol.messages"],
    "horizontal": ["xgb_fed.horizontal.common.messages", "xgb_fed.horizontal.simfl.messages"],
    "secure-sum": [
        "gbdt_parties.secure_sum.messages",
        "xgb_fed.horizontal.exact.exchange",
        "lgb_dp.federated.task",
    ],
    "columns": ["lgb_dp.vertical.task", "lgb_dp.vertical.prediction.questions"],
}
TAGS = {
    "i": "integer",
    "s": "text",
    "b": "bytes",
    "v": "bytes",
    "c": "ciphertexts",
    "B": "uint8 vector",
    "I": "int32 vector",
    "L": "int64 vector",
    "F": "float32 vector",
    "D": "float64 vector",
}


def section_of(value: Any) -> str:
    """Heading under which a public name is listed."""
    if inspect.isclass(value) and issubclass(value, Warning):
        return "Warnings"
    if inspect.isclass(value) and issubclass(value, BaseException):
        return "Errors"
    if inspect.isclass(value):
        return "Classes"
    return "Functions"


def underlined(title: str, line: str) -> list[str]:
    """A heading in reStructuredText."""
    return [title, line * len(title), ""]


def public_page(package: ModuleType, summary: str) -> str:
    """Reference of all public names of a package, in sections."""
    lines = [*underlined(package.__name__, "="), summary, "", f".. currentmodule:: {package.__name__}", ""]
    names = [name for name in package.__all__ if not name.startswith("__")]
    described = {}
    for other in map(importlib.import_module, list(PUBLIC)[: list(PUBLIC).index(package.__name__)]):
        same = (name for name in names if name in other.__all__)
        described |= {n: other.__name__ for n in same if getattr(other, n) is getattr(package, n)}
    again = [name for name in names if name in described]
    names = [name for name in names if name not in described]
    sections: dict[str, list[str]] = {}
    for name in sorted(names, key=str.lower):
        sections.setdefault(section_of(getattr(package, name)), []).append(name)
    for title in ("Classes", "Functions", "Errors", "Warnings"):
        if title in sections:
            lines += underlined(title, "-")
            lines += [".. autosummary::", "   :toctree: api", ""]
            lines += [f"   {name}" for name in sections[title]] + [""]
    if again:
        links = ", ".join(f":py:obj:`{described[name]}.{name}`" for name in sorted(again, key=str.lower))
        lines += [f"Described elsewhere, and public here, too: {links}.", ""]
    return "\n".join(lines)


def summary_of(module: ModuleType) -> str:
    """First sentence of a module's documentation, as one line."""
    paragraph = inspect.cleandoc(module.__doc__ or "").split("\n\n")[0]
    return " ".join(paragraph.split()).rstrip(":")


def internal_page() -> str:
    """What every internal module is, package by package."""
    lines = [
        *underlined("Internal modules", "="),
        "These modules are not part of the public interface and may change in any release.",
        "The page is for readers of the source code: each module says in a sentence what it is.",
        "",
    ]
    for name in INTERNAL:
        package = importlib.import_module(name)
        lines += underlined(name, "-")
        lines += [summary_of(package), "", ".. list-table::", "   :widths: 35 65", "   :header-rows: 1", ""]
        lines += ["   * - Module", "     - What it is"]
        for info in sorted(pkgutil.walk_packages(package.__path__, f"{name}."), key=lambda one: one.name):
            if info.name.rpartition(".")[2].startswith("_"):
                continue
            module = importlib.import_module(info.name)
            if summary_of(module):
                lines += [f"   * - ``{info.name.partition('.')[2]}``", f"     - {summary_of(module)}"]
        lines.append("")
    return "\n".join(lines)


def message_tables(modules: list[str]) -> str:
    """A section for each kind of message that the modules define, with its fields."""
    messages = importlib.import_module("gbdt_parties.messages")
    lines: list[str] = []
    for module in modules:
        importlib.import_module(module)
        for kind, cls in sorted(messages.KINDS.items()):
            if cls.__module__ != module or cls is messages.Message:
                continue
            lines += [f"**{cls.__name__}** (kind {kind})", "", summary_of_class(cls), ""]
            fields, parent = messages.declared(kind), cls.__base__
            if parent is not messages.Message and fields == messages.declared(parent.kind):
                lines += [f"Its fields are those of ``{parent.__name__}``.", ""]
                continue
            if not fields:
                continue
            comments = field_comments(cls)
            lines += [".. list-table::", "   :widths: 25 20 55", "   :header-rows: 1", ""]
            lines += ["   * - Field", "     - Type", "     - Meaning"]
            for field, (tag, *ends) in fields.items():
                meaning = " ".join(comments.get(field, [""])).strip()
                kind_of_value = ", ".join([TAGS[tag], *(["{} to {}".format(*ends)] if ends else [])])
                lines += [f"   * - ``{field}``", f"     - ``{tag}``, {kind_of_value}", f"     - {meaning}"]
            lines.append("")
    return "\n".join(lines)


def field_comments(cls: type) -> dict[str, list[str]]:
    """What the code says below each field of a class, its own or inherited."""
    found: dict[str, list[str]] = {}
    for base in reversed(cls.__mro__[:-1]):
        comments = ModuleAnalyzer.for_module(base.__module__).find_attr_docs()
        found |= {field: text for (owner, field), text in comments.items() if owner == base.__name__}
    return found


def summary_of_class(cls: type) -> str:
    """Documentation of a class as one line."""
    return " ".join(inspect.cleandoc(cls.__doc__ or "").split())


def write_pages(app: Any, _config: Any) -> None:
    """Write all pages; leave alone those that are as they were, so that Sphinx does not read them again."""
    folder = Path(app.srcdir) / "generated"
    folder.mkdir(exist_ok=True)
    pages = {f"{name}.rst": public_page(importlib.import_module(name), text) for name, text in PUBLIC.items()}
    pages["internal.rst"] = internal_page()
    pages["plan-file.inc"] = plan_reference.page()
    for name, modules in MESSAGE_MODULES.items():
        pages[f"messages-{name}.inc"] = message_tables(modules)
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the extension: pages must exist before Sphinx lists its sources for autosummary."""
    app.connect("config-inited", write_pages)
    return {"parallel_read_safe": True}

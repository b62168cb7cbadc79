"""Places that ``status`` looks at: a file of settings, a plan, or a folder with what belongs to either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from gbdt_commons.errors import VeilboostError
from gbdt_parties.identity.certificates import CERTIFICATE_FILE, TLS
from veilboost.doctor import findings, kept
from veilboost.doctor.findings import Finding
from veilboost.plans.files import parsed
from veilboost.plans.plan import read_plan, read_served
from veilboost.plans.sections import Plan, Served

PLANS = (".toml", ".yaml", ".yml")
FOREIGN = Finding("content", "nothing of veilboost", "name the folder of a party, its settings or a plan")


class Place(NamedTuple):
    """Findings about one party or coordinator.

    Attributes
    ----------
    path, what : str
    findings : list of Finding
    """

    path: str
    what: str
    findings: list[Finding]


def places_of(path: str | Path) -> Iterator[Place]:
    """Places at a path: in a folder, its files, then folders that these do not name, one level deep."""
    path = Path(path)
    if not path.is_dir():
        if not path.exists():
            yield Place(str(path), "unknown", [Finding("path", f"{path} does not exist", "correct the path")])
        elif path.suffix not in PLANS:
            yield Place(str(path), "file", [kept.budget(path)])
        else:
            yield _of_file(path) or Place(str(path), "unknown", [FOREIGN])
        return
    found, named = False, set[Path]()
    for file in sorted(one for one in path.iterdir() if one.suffix in PLANS and one.is_file()):
        if (place := _of_file(file, named)) is not None:
            found = True
            yield place
    for folder in (path, *sorted(one for one in path.iterdir() if one.is_dir())):
        if folder.resolve() not in named and (of_folder := [*_of_folder(folder)]):
            found = True
            yield Place(str(folder), "folder", of_folder)
    if not found:
        yield Place(str(path), "unknown", [FOREIGN])


def _of_file(path: Path, named: set[Path] | None = None) -> Place | None:
    """The party or coordinator of a file; None for another one, such as a declaration of columns."""
    named = set() if named is None else named
    try:
        content = parsed(path)
        if "tls" not in content:
            return None
        if "parties" in content:
            return Place(str(path), f"plan of {content.get('method', 'vertical')}", _of_plan(path, named))
        return Place(str(path), f"party of {content.get('method', 'vertical')}", _of_served(path, named))
    except VeilboostError as error:
        if b"tls" not in path.read_bytes():
            return None
        return Place(str(path), "unreadable", [Finding("file", path.name, str(error))])


def _of_plan(path: Path, named: set[Path]) -> list[Finding]:
    plan: Plan[Any, Any] = read_plan(path)
    state = getattr(plan.data, "state", None)
    names = [plan.tls, plan.training.checkpoint, plan.training.model, *([] if state is None else [state])]
    named |= {plan.path(name).resolve() for name in names}
    limits = {name: value for name, value in vars(plan.data).items() if name.startswith("max_")}
    allowed = getattr(plan.data, "allowed", [])
    return [
        _certificate(plan.path(plan.tls)),
        findings.names("", [party.name for party in plan.parties], allowed)._replace(
            rows=tuple({"party": one.name, "address": one.address} for one in plan.parties)
        ),
        kept.model(plan.path(plan.training.model)),
        kept.progress(plan.path(plan.training.checkpoint), f"veilboost train {path}"),
        *([] if state is None else kept.of_party(plan.path(state), limits)),
        *kept.record(plan.path(plan.training.record)),
        findings.disk([one.path.parent for one in plan.paths if one.writes]),
    ]


def _of_served(path: Path, named: set[Path]) -> list[Finding]:
    served: Served = read_served(path)[1]
    named |= {Path(served.tls).resolve(), Path(served.models).resolve()}
    names = findings.names("", [], [*served.allow, *getattr(served, "party", [])])
    if not served.allow:
        names = Finding(names.check, "allow is empty", "name callers in allow, or stop the server")
    return [
        _certificate(Path(served.tls)),
        names,
        *kept.of_party(Path(served.models), vars(served)),
        findings.disk([Path(served.models)]),
    ]


def _of_folder(folder: Path) -> Iterator[Finding]:
    if (folder / CERTIFICATE_FILE).exists():
        yield _certificate(folder)
    if any(folder.glob("*.store")) or any(folder.glob("for-*")):
        yield from kept.of_party(folder, {})
        yield findings.disk([folder])
    yield from (kept.budget(path) for path in kept.budgets_in(folder))


def _certificate(folder: Path) -> Finding:
    """The finding of the doctor; days that are few are a person's to mend here."""
    try:
        tls = TLS.from_directory(folder)
    except VeilboostError as error:
        return Finding("certificate", str(folder), str(error))
    found, ending = findings.own_certificate(tls), tls.ending()
    days = (("days_left", tls.days_left()),)
    return found._replace(seen=found.seen.removesuffix(f"; {ending}"), mend=found.mend or ending, values=days)

"""The command ``models``: models of a folder, whom they are kept for, and what predictions with them need."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from gbdt_commons.files import SIGNATURES
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import InvalidDataError
from veilboost.parsers import Parser
from veilboost.plans.entries import PlanError

NATIVE_FILES = ("model.json", "model.txt")
"""In a folder of a plan's model, that of XGBoost or LightGBM."""


class KeptModel(NamedTuple):
    """A model of a horizontal party, or one with splits that a passive party keeps.

    Only its `caller`, an active party or the coordinator of its training run, may use it. `number` is the
    model's id in hexadecimal digits, `n_splits` its number of splits, or "whole" for one that predicts alone,
    and `changed` when it was written, in seconds since 1970. `remove` removes it, and the journal of its
    training run.
    """

    caller: str
    number: str
    n_splits: str
    changed: float
    remove: Callable[[], None]


def kept_models(folder: str | Path) -> list[KeptModel]:
    """The models in a party's folder, by caller; the party's server may be running.

    Raises InvalidDataError without such a folder, StoreError if the store is damaged or of another release.
    """
    # Loaded when they are needed, with XGBoost.
    from gbdt_commons.store_file import StoreFile
    from gbdt_parties.transport.service import CALLER, STORE_FILE, part_of
    from xgb_fed.vertical.passive.service import KeptSplits

    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidDataError(f"{folder} is not a folder")
    models = [_whole_model(path) for end in ("json", "txt") for path in folder.glob(f"for-*/models/*.{end}")]
    callers = list[str]()
    if (path := folder / STORE_FILE).exists():
        with closing(StoreFile(path, None, read_only=True)) as store:
            callers = store.keys(CALLER)
            for caller in callers:
                models += _models_with_splits(path, caller, KeptSplits(part_of(store, caller)))
    models += _models_of_columns_apart(folder, callers)
    return sorted(models, key=lambda model: (model.caller, model.number))


def own_models(folder: str | Path) -> Iterator[tuple[Path, str]]:
    """Folders of trained models here and one level below, with their needs; ModelError if damaged."""
    # Loaded when they are needed, with XGBoost.
    from xgb_fed.vertical.model.model import MODEL_FILE, VerticalModel

    for place in (Path(folder), *sorted(one for one in Path(folder).iterdir() if one.is_dir())):
        if (place / MODEL_FILE).exists():
            parties = ", ".join(quoted(name) for name in VerticalModel.load(place).parties)
            yield place, f"predictions need {parties or 'no other party'}"
        elif any((place / name).exists() for name in NATIVE_FILES):
            yield place, "predicts alone"


def _whole_model(path: Path) -> KeptModel:
    def remove() -> None:
        _end_run(path, caller)
        path.unlink()
        path.with_suffix(SIGNATURES).unlink(missing_ok=True)

    caller = unquote(path.parts[-3][len("for-") :])
    return KeptModel(caller, path.name.split(".")[0], "whole", path.stat().st_mtime, remove)


def _end_run(model: Path, caller: str) -> None:
    """Remove the keys and messages of an auditable run with its model, if they are kept."""
    from gbdt_commons.store import Store
    from gbdt_commons.store_file import StoreFile
    from gbdt_parties.run.log import RunLog, runs_of

    folder, run = model.parents[2], bytes.fromhex(model.stem)
    if model.suffix == ".txt":
        from lgb_dp.federated.ledger import LEDGER_FILE, ROLE

        path, role = folder / LEDGER_FILE, ROLE
    else:
        from gbdt_parties.transport.service import STORE_FILE, part_of
        from xgb_fed.horizontal.party import EXACT
        from xgb_fed.horizontal.service import HorizontalService

        path, role = folder / STORE_FILE, HorizontalService.role

    def log(store: Store) -> RunLog:
        is_private = model.suffix == ".txt"
        runs = runs_of(store, model.parts[-3]) if is_private else part_of(store, caller).part(EXACT)
        return RunLog(runs, run)

    if path.exists():
        with closing(StoreFile(path, role, read_only=True)) as store:
            is_kept = log(store).has_begun
        if is_kept:  # the party's server, which has the store, must not be running then
            with closing(StoreFile(path, role)) as store:
                log(store).end()


def _models_of_columns_apart(folder: Path, callers: Sequence[str]) -> Iterator[KeptModel]:
    """Models that a party with columns alone answers questions with."""
    paths = list(folder.glob("models/*.txt"))
    if not paths:
        return
    # Loaded when they are needed, with LightGBM.
    from lgb_dp.vertical.party import kept_runs, remove_model

    names = {f"for-{quote(caller, safe='')}": caller for caller in callers}
    runs = kept_runs(folder, list(names))
    for path in paths:
        caller = runs.get(path.stem, "")
        remove = partial(remove_model, path, caller)
        yield KeptModel(names.get(caller, caller), path.stem, "whole", path.stat().st_mtime, remove)


def _models_with_splits(path: Path, caller: str, kept: Any) -> Iterator[KeptModel]:
    for model in kept:
        remove = partial(_remove_splits, path, caller, model)
        yield KeptModel(caller, model.hex(), str(len(kept[model])), kept.since(model), remove)


def _remove_splits(path: Path, caller: str, model: bytes) -> None:
    from gbdt_commons.store_file import StoreFile
    from gbdt_parties.transport.service import part_of
    from xgb_fed.vertical.passive.service import ROLE, KeptSplits

    with closing(StoreFile(path, ROLE)) as store:
        del KeptSplits(part_of(store, caller))[model]


def check_free(path: Path, overwrite: bool) -> None:
    """Raise PlanError if a model's file, the last one that training writes, is there and is not to be
    replaced.
    """
    if not overwrite and path.exists():
        raise PlanError(
            f"{path.parent} holds a model; --overwrite replaces it, training.model names another folder"
        )


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.add_argument(
        "folder", help="the folder that serve keeps (its --models), or of a plan and the models trained by it"
    )
    parser.add_argument(
        "--remove",
        action="append",
        default=[],
        metavar="MODEL",
        help="remove this model, or its splits, by its number's first digits; repeatable; no server may run",
    )
    parser.runs(_models, "veilboost models bank-models --remove 3f2a90")


def _models(args: argparse.Namespace) -> None:
    models = kept_models(args.folder)
    if args.remove:
        for start in args.remove:
            _remove(models, start)
        return
    own = list(own_models(args.folder))
    for place, needs in own:
        print(f"{place}: {needs}")
    if own and not models:
        return
    print(f"{'usable by':20}  {'model':32}  {'splits':>6}  last change (UTC)")
    for model in models:
        changed = datetime.fromtimestamp(model.changed, timezone.utc)
        print(f"{quoted(model.caller):20}  {model.number:32}  {model.n_splits:>6}  {changed:%Y-%m-%d %H:%M}")
    n_parts = sum(model.n_splits != "whole" for model in models)
    needed = f"; of {n_parts} the splits exist here only, and predictions need them" if n_parts else ""
    print(f"models: {len(models)}{needed}")


def _remove(models: list[KeptModel], start: str) -> None:
    """Remove a model, or its splits, and its journal, if the digits name exactly one."""
    named = [model for model in models if start and model.number.startswith(start)]
    if len(named) != 1:
        raise InvalidDataError(f"{len(named)} models have numbers that begin with {start!r}, not one")
    named[0].remove()
    print(f"removed: {named[0].number} of {quoted(named[0].caller)}")

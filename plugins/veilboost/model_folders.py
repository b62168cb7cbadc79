"""The command ``models``: what a party keeps for whom, and what of it is not needed any more."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import InvalidDataError
from veilboost.parsers import Parser
from veilboost.plans.entries import PlanError
from xgb_fed.errors import CorruptDataError


class KeptModel(NamedTuple):
    """A model of a horizontal party, or one with splits that a passive party keeps.

    Attributes
    ----------
    caller : str
        The only active party that may use it, or the coordinator of its training run.
    number : str
        The model's id in hexadecimal digits.
    path : Path
    """

    caller: str
    number: str
    path: Path

    @property
    def is_whole(self) -> bool:
        """Whether it is a horizontal party's, which predicts alone."""
        return not self.path.name.endswith(_SPLITS)

    @property
    def journals(self) -> list[Path]:
        """Journals of its training run, which may not be there any more."""
        name = f"{self.number}.journal"
        return [self.path.with_name(name), self.path.parents[1] / "runs" / name]


_SPLITS = ".splits.json"


def kept_models(folder: str | Path) -> Iterator[KeptModel]:
    """The models in a party's folder, by caller.

    Raises
    ------
    InvalidDataError
        If there is no such folder.
    """
    if not Path(folder).is_dir():
        raise InvalidDataError(f"{folder} is not a folder")
    paths = [*Path(folder).glob("for-*/models/*.json"), *Path(folder).glob("for-*/models/*.txt")]
    for path in sorted(paths):
        yield KeptModel(unquote(path.parts[-3][len("for-") :]), path.name.split(".")[0], path)


def check_free(path: Path, overwrite: bool) -> None:
    """Raise `PlanError` if a model is in its place already and is not to be replaced.

    Parameters
    ----------
    path : Path
        Of the model's file, the last one that training writes.
    overwrite : bool
        Whether a model may be replaced.
    """
    if not overwrite and path.exists():
        raise PlanError(
            f"{path.parent} holds a model; --overwrite replaces it, training.model names another folder"
        )


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.add_argument("folder", help="the folder that serve keeps (its --models)")
    parser.add_argument(
        "--remove",
        action="append",
        default=[],
        metavar="MODEL",
        help="remove this model, or its splits, by the first digits of its number; repeatable",
    )
    parser.runs(_models, "veilboost models bank-models --remove 3f2a90")


def _models(args: argparse.Namespace) -> None:
    models = list(kept_models(args.folder))
    if args.remove:
        for start in args.remove:
            _remove(models, start)
        return
    print(f"{'usable by':20}  {'model':32}  {'splits':>6}  last change (UTC)")
    for model in models:
        changed = datetime.fromtimestamp(model.path.stat().st_mtime, timezone.utc)
        print(
            f"{quoted(model.caller):20}  {model.number:32}  {_n_splits(model):>6}  {changed:%Y-%m-%d %H:%M}"
        )
    print(f"{len(models)} models; their splits exist here only, and predictions need them")


def _n_splits(model: KeptModel) -> str:
    if model.is_whole:
        return "whole"
    # Loaded when it is needed, with XGBoost.
    from xgb_fed.vertical.protocol.splits import Splits

    try:
        return str(len(Splits.load(model.path)))
    except CorruptDataError:
        return "damaged"


def _remove(models: list[KeptModel], start: str) -> None:
    """Remove a model, or its splits, and its journal, if the digits name exactly one."""
    named = [model for model in models if start and model.number.startswith(start)]
    if len(named) != 1:
        raise InvalidDataError(f"{len(named)} models have numbers that begin with {start!r}, not one")
    model = named[0]
    model.path.unlink()
    for path in model.journals:
        path.unlink(missing_ok=True)
    print(f"removed: {model.number} of {quoted(model.caller)}")

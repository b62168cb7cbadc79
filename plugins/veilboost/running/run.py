"""The skeleton of a training run by a plan; modules named after the kinds of training hold what differs."""

from __future__ import annotations

import argparse
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from gbdt_commons.files import make_folder, write_atomically
from gbdt_parties.channel import Party
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.identity.record import write_traffic
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from veilboost.kept_files import ROUNDS_FILE
from veilboost.model_folders import check_free
from veilboost.plans.entries import PlanError
from veilboost.plans.sections import Plan
from veilboost.running.predictions import Predicted

logger = logging.getLogger(__name__)
PlanT = TypeVar("PlanT", bound=Plan[Any, Any])


class Run(ABC, Generic[PlanT]):
    """A training run by a plan; the constructor reads the rows of the run's initiator.

    `plan_file` names the plan in errors; `stack` closes what the run has opened. `own` has the initiator's
    rows as a party in this process, if it has any and is a party; `row_sets` are alignments of the rows that
    requests are about.
    """

    model_file: ClassVar[str]
    """In the model's folder, the file that is written last."""

    host: ClassVar[str]
    """The library whose own models are exported."""

    is_native: ClassVar[bool] = True
    """Whether the model's file is the host's own already; else parties keep parts of the model."""

    warnings: ClassVar[tuple[type[Warning], ...]] = ()
    """Warnings of training that the log shows; others are left out."""

    def __init__(self, plan: PlanT, plan_file: str, stack: ExitStack) -> None:
        self.plan = plan
        self.own: list[Party] = []
        self.row_sets: list[bytes] = []
        self.traffic = Traffic()

    @abstractmethod
    def train(self, parties: Sequence[Any]) -> Any:
        """Train with the parties; gives the model."""

    @abstractmethod
    def save(self, model: Any, directory: Path) -> None:
        """Write the model into its folder."""

    @classmethod
    def exported(cls, plan: PlanT, plan_file: str) -> tuple[bytes, str]:
        """The model as its host's own, with a few words; ConsentError names a party that keeps its part."""
        return (plan.path(plan.training.model) / cls.model_file).read_bytes(), f"{cls.host}'s own model"

    @abstractmethod
    def checkpoint(self, folder: Path) -> RunCheckpoint:
        """The progress in a folder, which a written model does not need."""

    @abstractmethod
    def summary(self, model: Any, directory: Path, n_parties: int) -> str:
        """The model's size, its folder, and what else is worth a line."""


class RunCheckpoint(Protocol):
    """The progress of a training run."""

    def clear(self) -> None:
        """Remove it."""


class RunKind(Protocol):
    """A module for one kind of training."""

    RUN: type[Run[Any]]

    def predict(self, plan: Any, args: argparse.Namespace) -> Predicted:
        """Predict rows of a file by the model of a plan."""


def connect(plan: Plan[Any, Any], stack: ExitStack, row_sets: Sequence[bytes] = ()) -> list[RemoteParty]:
    """Parties of a plan, until the stack ends; `row_sets` are the alignments that requests are about."""
    parties = []
    for party in plan.parties:
        tls = TLS.from_directory(plan.path(plan.tls), party.server_name)
        how: dict[str, Any] = {"row_sets": row_sets, "allowed": plan.data.allowed or None}
        tls.check_dates()
        remote = RemoteParty(party.address, tls, party.name, plan.training.timeout, **how)
        stack.callback(remote.close)
        parties.append(remote)
    return parties


def train(
    kind: RunKind,
    plan: Plan[Any, Any],
    args: argparse.Namespace,
    parties_of: Callable[[Plan[Any, Any], ExitStack, Sequence[bytes]], Sequence[Party]] | None = None,
) -> None:
    """Train by a plan, and write the model, the record and a line about them.

    `args` has `plan`, the name of its file, and `overwrite`. `parties_of` gives the plan's parties, by
    default those behind servers (`connect`).
    """
    directory = plan.path(plan.training.model)
    target = directory / kind.RUN.model_file
    check_free(target, args.overwrite)
    with ExitStack() as stack, logged(kind.RUN.warnings):
        run = kind.RUN(plan, args.plan, stack)
        parties = [*run.own, *(parties_of or connect)(plan, stack, run.row_sets)]
        try:
            model = run.train(parties)
        finally:
            write_traffic(plan.path(plan.training.record), run.traffic)
    # Once more: somebody else's may be there by now.
    check_free(target, args.overwrite)
    make_folder(directory)
    run.save(model, directory)
    progress = plan.path(plan.training.checkpoint)
    run.checkpoint(progress).clear()
    (progress / ROUNDS_FILE).unlink(missing_ok=True)
    print(run.summary(model, directory, len(parties)))


def export(kind: RunKind, plan: Plan[Any, Any], args: argparse.Namespace) -> None:
    """Write the model as its host's own; where it is that already, copy it, or say where it is."""
    run = kind.RUN
    kept = kept_model(plan.path(plan.training.model) / run.model_file)
    if args.out is None and run.is_native:
        print(f"{run.host}'s own model already: {kept}")
        return
    target = Path(args.out or kept.with_name("booster.json"))
    if target.suffix != kept.suffix:
        raise PlanError(f"--out={args.out} must end in {kept.suffix}, which is the format of the model")
    if target.exists() and not args.overwrite:
        raise PlanError(f"{target} exists; --overwrite replaces it, --out names another file")
    content, about = run.exported(plan, args.plan)
    write_atomically(target, content)
    print(f"{about}: {target}")


def kept_model(path: Path) -> Path:
    """The path of a model's file; `FileNotFoundError` if it is not there."""
    if not path.exists():
        raise FileNotFoundError(f"{path.parent} holds no model; train first")
    return path


@contextmanager
def logged(kinds: tuple[type[Warning], ...]) -> Iterator[None]:
    """Write warnings of these kinds into the log, and leave out the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in kinds:
            warnings.simplefilter("default", kind)
        warnings.showwarning = lambda message, *_, **__: logger.warning("%s", message)
        yield


def own_credentials(plan: Plan[Any, Any]) -> tuple[TLS, str]:
    """The initiator's credentials, and the name in its certificate."""
    tls = TLS.from_directory(plan.path(plan.tls))
    return tls, Identity.of(tls.certificate).name


def rows_to_predict(plan: Plan[Any, Any], args: argparse.Namespace) -> Path:
    """The file of the rows that a command predicts; PlanError if neither command nor plan names one."""
    file = args.data or (None if plan.data.file is None else plan.path(plan.data.file))
    if file is None:
        raise PlanError("--data is missing, and the plan has no data.file")
    return Path(file)

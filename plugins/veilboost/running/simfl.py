"""SimFL by the command: the coordinator's part; and models of horizontal training, which all parties have."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import xgboost

from gbdt_commons.files import make_folder, write_atomically
from gbdt_commons.sealed import write_sealed
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.record import write_traffic
from veilboost.model_folders import check_free
from veilboost.parsers import read_json
from veilboost.plans.plan import ExactPlan, HorizontalPlan, PlanError
from veilboost.plans.tables import Table, read_table
from veilboost.running.connections import connect
from veilboost.running.predictions import write_predictions
from veilboost.running.progress import RoundLines
from xgb_fed.errors import HeuristicProtectionWarning
from xgb_fed.horizontal.common.model import HorizontalModel
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.simfl.checkpoint import Checkpoint
from xgb_fed.horizontal.train_simfl import WARNING, train_simfl

logger = logging.getLogger(__name__)
MODEL_FILE = "model.json"
ABOUT_FILE = "about.json"
"""In the model's folder: XGBoost's model, and the labels of its classes."""

OBJECTIVES = {"classes": "binary:logistic", "numbers": "reg:squarederror"}


def train(plan: HorizontalPlan, overwrite: bool) -> None:
    """Train by SimFL, and write the model."""
    directory, training = plan.path(plan.training.model), plan.training
    check_free(directory / MODEL_FILE, overwrite)
    evals = [] if plan.data.valid is None else [(_evaluation_rows(plan, plan.data.valid), "valid")]
    checkpoint = plan.path(training.checkpoint)
    logger.warning(WARNING)
    with ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore", HeuristicProtectionWarning)
        own = [] if plan.data.file is None else [_own_party(plan, plan.data.file)]
        model = train_simfl(
            {"objective": OBJECTIVES[plan.data.labels], **plan.parameters},
            [*own, *connect(plan, training.timeout, stack)],
            training.rounds,
            n_hashes=training.n_hashes,
            known_features=training.known_features,
            evals=evals,
            early_stopping_rounds=training.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[RoundLines(logger, training.rounds)],
            checkpoint=checkpoint,
            patience=training.patience,
        )
    # Once more: somebody else's may be there by now.
    check_free(directory / MODEL_FILE, overwrite)
    write_model(directory, model)
    write_traffic(plan.path(training.record), model.traffic)
    Checkpoint(checkpoint).clear()
    n_parties = len(plan.parties) + len(own)
    print(f"{model.booster.num_boosted_rounds()} rounds with {n_parties} parties: {directory}")


def write_model(directory: Path, model: HorizontalModel) -> None:
    """Write a model and what predictions by the command need beside it, and log its best round."""
    make_folder(directory)
    classes = None if model.classes is None else model.classes.tolist()
    about = {"classes": classes, "best_iteration": model.best_iteration}
    write_sealed(directory / ABOUT_FILE, about)
    write_atomically(directory / MODEL_FILE, model.as_json())
    if model.best_iteration is not None:
        logger.info("best round %d, %s", model.best_iteration + 1, f"metric {model.best_score:.5f}")


def _own_party(plan: HorizontalPlan, file: str) -> HorizontalParty:
    """The coordinator's own rows, as a party in this process."""
    data = plan.data
    table = _table(plan, file)
    return HorizontalParty(
        table.columns,
        table.label,
        data.name,
        categorical_labels=data.labels == "classes",
        min_similar=data.min_similar,
        known_features=data.known_features,
        max_rows=data.max_rows,
        max_rounds=data.max_rounds,
        directory=plan.path(data.state),
    )


def _table(plan: HorizontalPlan, file: str) -> Table:
    data = plan.data
    return read_table(plan.path(file), id_column=data.id, label=data.label, drop=data.drop)


def _evaluation_rows(plan: HorizontalPlan, file: str) -> tuple[Any, Any]:
    table = _table(plan, file)
    return table.columns, table.label


def predict(plan: HorizontalPlan | ExactPlan, args: argparse.Namespace) -> None:
    """Predict rows of a file by the model; no other party is asked."""
    directory = plan.path(plan.training.model)
    if not (directory / MODEL_FILE).exists():
        raise FileNotFoundError(f"{directory} holds no model; train first")
    file = args.data or (None if plan.data.file is None else plan.path(plan.data.file))
    if file is None:
        raise PlanError("--data is missing, and the plan has no data.file")
    booster = xgboost.Booster(model_file=directory / MODEL_FILE)
    about = read_json(directory / ABOUT_FILE)
    names = booster.feature_names
    table = read_table(file, id_column=plan.data.id, keep=names)
    if table.columns.n_features != booster.num_features():
        raise InvalidDataError(
            f"{file} has {table.columns.n_features} columns; the model has {booster.num_features()}"
        )
    rows = xgboost.DMatrix(table.columns.data, feature_names=names)
    best = about["best_iteration"]
    predictions = booster.predict(rows, iteration_range=(0, 0 if best is None else best + 1))
    write_predictions(args.out, table.ids, predictions, about["classes"])
    text = f"{len(table.ids)} of {len(table.ids)} rows predicted"
    print(
        text if args.out == "-" else f"{text}: {args.out}", file=sys.stderr if args.out == "-" else sys.stdout
    )

"""Models of horizontal training as XGBoost's own, with what predictions by the command need beside them."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any, TypeVar

import xgboost

from gbdt_commons.files import write_signed
from gbdt_commons.sealed import write_sealed
from gbdt_parties.errors import InvalidDataError
from veilboost.kept_files import read_json
from veilboost.plans.exact import ExactPlan
from veilboost.plans.simfl import SimFLPlan
from veilboost.plans.tables import read_table
from veilboost.running.predictions import Predicted, predictions_of
from veilboost.running.run import Run, kept_model, rows_to_predict
from xgb_fed.horizontal.common.model import AUTO, HorizontalModel
from xgb_fed.horizontal.party import HorizontalParty

PlanT = TypeVar("PlanT", ExactPlan, SimFLPlan)
logger = logging.getLogger(__name__)
MODEL_FILE = "model.json"
ABOUT_FILE = "about.json"
"""In the model's folder: XGBoost's model, and the labels of its classes."""

OBJECTIVES = {"classes": AUTO, "numbers": "reg:squarederror"}


class NativeRun(Run[PlanT]):
    """A training run that ends in a model of XGBoost, which all parties have."""

    model_file = MODEL_FILE
    host = "XGBoost"

    def own_party(self, file: str, name: str, **more: Any) -> HorizontalParty:
        """The coordinator's own rows, as a party in this process, with arguments for one kind of training."""
        data = self.plan.data
        return HorizontalParty(
            *labelled_rows(self.plan, file),
            name,
            categorical_labels=data.labels == "classes",
            max_rows=data.max_rows,
            max_rounds=data.max_rounds,
            accept_rows=data.accept_rows,
            directory=self.plan.path(data.state),
            **more,
        )

    def save(self, model: HorizontalModel, directory: Path) -> None:
        """Write the model and the labels of its classes, and log its best round."""
        classes = None if model.classes is None else model.classes.tolist()
        about = {"classes": classes, "best_iteration": model.best_iteration}
        write_sealed(directory / ABOUT_FILE, about)
        write_signed(directory / MODEL_FILE, model.as_json(), model.signatures)
        if model.best_iteration is not None:
            logger.info("best round %d, %s", model.best_iteration + 1, f"metric {model.best_score:.5f}")

    def summary(self, model: HorizontalModel, directory: Path, n_parties: int) -> str:
        """The numbers of rounds and parties."""
        return f"{model.booster.num_boosted_rounds()} rounds with {n_parties} parties: {directory}"


def labelled_rows(plan: ExactPlan | SimFLPlan, file: str) -> tuple[Any, Any]:
    """Columns and labels of a file of the coordinator."""
    data = plan.data
    how: Any = {"label": data.label, "drop": data.drop, "form": plan.form}
    table = read_table(plan.path(file), id_column=data.id, **how)
    return table.columns, table.label


def predict(plan: ExactPlan | SimFLPlan, args: argparse.Namespace) -> Predicted:
    """Predict rows of a file by the model; no other party is asked."""
    model = kept_model(plan.path(plan.training.model) / MODEL_FILE)
    file = rows_to_predict(plan, args)
    booster = xgboost.Booster(model_file=model)
    about = read_json(model.with_name(ABOUT_FILE))
    names = booster.feature_names
    table = read_table(file, id_column=plan.data.id, keep=names, form=plan.form)
    if table.columns.n_features != booster.num_features():
        raise InvalidDataError(
            f"{file} has {table.columns.n_features} columns; the model has {booster.num_features()}"
        )
    rows = xgboost.DMatrix(table.columns.data, feature_names=names)
    best = about["best_iteration"]
    predictions = booster.predict(rows, iteration_range=(0, 0 if best is None else best + 1))
    return predictions_of(table.ids, table.ids, predictions, about["classes"])

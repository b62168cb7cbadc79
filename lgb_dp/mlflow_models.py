"""A flavour of MLflow for private models: LightGBM's own, whose `pyfunc` predicts the tables of training."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import lightgbm

from gbdt_commons._version import __version__
from lgb_dp.boosting.booster import DPBooster, content_of, privacy_of, text_in
from lgb_dp.errors import MissingDependencyError
from lgb_dp.evaluation.model import ModelEvaluation
from lgb_dp.statements import statement


def log_to_mlflow(model: Any, name: str = "model", **options: Any) -> Any:
    """Log a private model, its ε and δ, its report, its statement and its evaluation to MLflow's run.

    `mlflow.pyfunc.load_model` gives a model that predicts tables as `DPBooster.predict` does, and
    `mlflow.lightgbm.load_model` the booster of LightGBM with the guarantee in its text.

    Parameters
    ----------
    model : path, str, lightgbm.Booster or fitted estimator
        As for `statement`.
    name : str
        Of the logged model.
    **options : object
        As for `mlflow.lightgbm.log_model`: `signature`, `input_example`, `registered_model_name` and others.

    Returns
    -------
    mlflow.models.model.ModelInfo

    Raises
    ------
    NoGuaranteeError, AlteredModelError
        If the model carries no guarantee, or another model's.
    MissingDependencyError
        If MLflow 3 is not installed.
    """
    try:
        import mlflow.lightgbm
        from mlflow.models import Model
    except ImportError as error:
        raise MissingDependencyError("log_to_mlflow needs MLflow: pip install 'mlflow>=3'") from error
    text = text_in(content_of(getattr(model, "booster_", model)))
    report = privacy_of(text)
    options.setdefault("pip_requirements", [f"veilboost=={__version__}", f"lightgbm=={lightgbm.__version__}"])
    info = Model.log(None, sys.modules[__name__], name=name, text=text, **options)
    if report.private:  # no other pair is a guarantee
        mlflow.log_metrics({"epsilon": report.epsilon, "delta": report.delta})
    if report.evaluation is not None:
        mlflow.log_metrics(metrics_of(report.evaluation))
    mlflow.set_tag("private", str(report.private))
    mlflow.log_dict(report.to_dict(), f"{name}-privacy.json")
    mlflow.log_text(statement(text).to_html(), f"{name}-statement.html")
    return info


def metrics_of(evaluation: ModelEvaluation) -> dict[str, float]:
    """Figures and the ends of their intervals, as far as they are finite, by names that MLflow accepts."""
    found = {
        re.sub(r"[^A-Za-z0-9 _.-]", " ", f"{name} {end}".replace("²", "2").removesuffix(" value")): number
        for name, one in evaluation.all_figures().items()
        for end, number in vars(one).items()
    }
    return {name: number for name, number in found.items() if math.isfinite(number)}


def save_model(text: str, path: str, mlflow_model: Any, **options: Any) -> None:
    """Write the files of a model of some text to a new folder; MLflow calls it."""
    import mlflow.lightgbm

    # By the name of its class: MLflow loads no other one from LightGBM's text.
    plain = lightgbm.Booster(model_str=text)
    mlflow.lightgbm.save_model(plain, path, mlflow_model=mlflow_model, **options)
    mlflow_model.flavors["python_function"]["loader_module"] = __name__
    mlflow_model.save(str(Path(path) / "MLmodel"))


def _load_pyfunc(path: str) -> DPBooster:
    """The model in a file; MLflow calls it."""
    return DPBooster(model_file=path)

"""Texts that parties of exact training exchange, read strictly: requests, descriptions, and the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from gbdt_commons.quoting import quoted
from gbdt_hosts.xgboost.model import as_json, booster_from_json
from gbdt_parties.agreed import read_json
from gbdt_parties.errors import ProtocolError
from gbdt_parties.secure_sum.messages import OpenRun
from gbdt_parties.traffic import Traffic
from xgb_fed.horizontal.common.introductions import MAX_TEXT, check_columns
from xgb_fed.horizontal.common.model import HorizontalModel
from xgb_fed.horizontal.exact.task import MAX_SETS
from xgb_fed.horizontal.exact.training import ExactModel

REQUESTS = {json.dumps({"method": "exact", "classes": wants}): wants for wants in (False, True)}
"""Requests, and whether labels are classes, which all parties tell: the task follows from them."""


def request_of(wants_classes: bool) -> str:
    """The request of a run."""
    return next(text for text, wants in REQUESTS.items() if wants == wants_classes)


class OpenExactRun(OpenRun, kind=121):
    """Coordinator to party: takes up an exact training run, new or known."""


@dataclass(frozen=True)
class ExactDescription:
    """Description of a party's columns; nothing of rows but their labels.

    Names and distinct labels are JSON lists, empty if the columns have none or labels are not asked for; the
    coordinator and all parties learn all of them.
    """

    n_features: int
    names: str
    classes: str
    n_sets: int

    def to_json(self) -> str:
        """All of it."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, party: str, text: str, wants_classes: bool) -> ExactDescription:
        """Read what a party has sent; a ProtocolError names it."""
        try:
            own = cls(**read_json(text, 4 * MAX_TEXT))
            if tuple(map(type, asdict(own).values())) != (int, str, str, int):
                raise ProtocolError("values of other types")
            check_columns(own, wants_classes)
            if not 0 <= own.n_sets <= MAX_SETS:
                raise ProtocolError(f"{own.n_sets} sets of held-out rows")
        except (ValueError, TypeError):
            raise ProtocolError(f"party {party!r} sent a description that cannot be read") from None
        except ProtocolError as error:
            raise ProtocolError(f"party {party!r} introduces itself with {quoted(str(error))}") from None
        return own


def content_of(model: ExactModel) -> tuple[bytes, bytes]:
    """The booster in XGBoost's JSON format, and JSON of cuts and metrics, the same at all parties."""
    about = {
        "cuts": [own.astype(np.float64).tolist() for own in model.cuts],
        "evals_result": model.evals_result,
        "best_iteration": model.best_iteration,
        "best_score": model.best_score,
    }
    return as_json(model.booster), json.dumps(about).encode()


def read_content(
    parts: Sequence[bytes], classes: list[Any] | None, traffic: Traffic, signatures: str
) -> HorizontalModel:
    """The model that the parties agree on, and have signed; a ProtocolError says that it is none."""
    try:
        booster, about = parts
        values = json.loads(about)
        return HorizontalModel(
            booster_from_json(booster.decode()),
            None if classes is None else np.array(classes),
            traffic,
            values["best_iteration"],
            values["best_score"],
            values["evals_result"],
            [np.array(own, dtype=np.float32) for own in values["cuts"]],
            signatures,
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        # An XGBoostError is a ValueError.
        raise ProtocolError(f"the parties' model cannot be read: {type(error).__name__}") from None

"""XGBoost models trained across organisations under encryption."""

from xgb_fed.errors import (
    AuthenticationError,
    ConsentError,
    InvalidDataError,
    NotEncryptedWarning,
    PartyRefused,
    PartyUnavailable,
    ProtocolError,
    UnsupportedParameterError,
)
from xgb_fed.estimators import VerticalXGBClassifier, VerticalXGBRegressor
from xgb_fed.model import VerticalModel
from xgb_fed.naive_paillier import NaivePaillier
from xgb_fed.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.paillier import Paillier
from xgb_fed.party import LocalParty
from xgb_fed.plain import Plain
from xgb_fed.remote import RemoteParty
from xgb_fed.traffic import Traffic
from xgb_fed.training import ActiveData, train

__all__ = [
    "ActiveData",
    "AuthenticationError",
    "ConsentError",
    "InvalidDataError",
    "LocalParty",
    "NaivePaillier",
    "NotEncryptedWarning",
    "OkamotoUchiyama",
    "Paillier",
    "PartyRefused",
    "PartyUnavailable",
    "Plain",
    "ProtocolError",
    "RemoteParty",
    "Traffic",
    "UnsupportedParameterError",
    "VerticalModel",
    "VerticalXGBClassifier",
    "VerticalXGBRegressor",
    "train",
]

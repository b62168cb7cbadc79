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
from xgb_fed.horizontal import HorizontalXGBClassifier, HorizontalXGBRegressor
from xgb_fed.horizontal_baselines import train_all_in, train_solo, train_tfl
from xgb_fed.horizontal_party import HorizontalParty
from xgb_fed.horizontal_training import HorizontalModel
from xgb_fed.model import VerticalModel
from xgb_fed.naive_paillier import NaivePaillier
from xgb_fed.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.paillier import Paillier
from xgb_fed.party import LocalParty
from xgb_fed.plain import Plain
from xgb_fed.remote import RemoteParty
from xgb_fed.simfl import train_simfl
from xgb_fed.traffic import Traffic
from xgb_fed.training import ActiveData, train

__all__ = [
    "ActiveData",
    "AuthenticationError",
    "ConsentError",
    "HorizontalModel",
    "HorizontalParty",
    "HorizontalXGBClassifier",
    "HorizontalXGBRegressor",
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
    "train_all_in",
    "train_simfl",
    "train_solo",
    "train_tfl",
]

"""XGBoost models trained across organisations under encryption."""

from gbdt_parties.errors import (
    AuthenticationError,
    ConsentError,
    InvalidDataError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
)
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty

from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import NotEncryptedWarning, UnsupportedParameterError
from xgb_fed.horizontal.baselines import train_all_in, train_solo, train_tfl
from xgb_fed.horizontal.estimators import HorizontalXGBClassifier, HorizontalXGBRegressor
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.shared_model import HorizontalModel
from xgb_fed.horizontal.simfl import train_simfl
from xgb_fed.vertical.estimators import VerticalXGBClassifier, VerticalXGBRegressor
from xgb_fed.vertical.local_party import LocalParty
from xgb_fed.vertical.model import VerticalModel
from xgb_fed.vertical.task import ActiveData
from xgb_fed.vertical.training import train

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
    "NotEncryptedWarning",
    "OkamotoUchiyama",
    "Paillier",
    "PartyRefusedError",
    "PartyUnavailableError",
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

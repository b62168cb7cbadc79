"""XGBoost models trained across organisations under encryption."""

from gbdt_kernels._version import __version__ as __version__
from gbdt_kernels.errors import VeilboostError
from gbdt_parties.errors import (
    AuthenticationError,
    ConsentError,
    InvalidDataError,
    PartyArgumentError,
    PartyArgumentTypeError,
    PartyError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    RowMismatchError,
    SessionLostError,
)
from gbdt_parties.identity.alignment import Alignment, align
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import (
    ArgumentTypeError,
    CheckpointError,
    CipherError,
    CorruptDataError,
    FederatedTrainingError,
    HeuristicProtectionWarning,
    InvalidArgumentError,
    InvalidCiphertextError,
    LabelLeakWarning,
    NotEncryptedWarning,
    PackingError,
    PlaintextRangeError,
    UnsupportedParameterError,
    VersionError,
    WeakKeyError,
    WrongKeyError,
)
from xgb_fed.horizontal.baselines import train_tfl
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
    "Alignment",
    "ArgumentTypeError",
    "AuthenticationError",
    "CheckpointError",
    "CipherError",
    "ConsentError",
    "CorruptDataError",
    "FederatedTrainingError",
    "HeuristicProtectionWarning",
    "HorizontalModel",
    "HorizontalParty",
    "HorizontalXGBClassifier",
    "HorizontalXGBRegressor",
    "InvalidArgumentError",
    "InvalidCiphertextError",
    "InvalidDataError",
    "LabelLeakWarning",
    "LocalParty",
    "NotEncryptedWarning",
    "OkamotoUchiyama",
    "PackingError",
    "Paillier",
    "PartyArgumentError",
    "PartyArgumentTypeError",
    "PartyError",
    "PartyRefusedError",
    "PartyUnavailableError",
    "Plain",
    "PlaintextRangeError",
    "ProtocolError",
    "RemoteParty",
    "RowMismatchError",
    "SessionLostError",
    "Traffic",
    "UnsupportedParameterError",
    "VeilboostError",
    "VersionError",
    "VerticalModel",
    "VerticalXGBClassifier",
    "VerticalXGBRegressor",
    "WeakKeyError",
    "WrongKeyError",
    "align",
    "train",
    "train_simfl",
    "train_tfl",
]

"""XGBoost models trained across organisations under encryption.

Names are loaded when they are first used: a party that only aligns rows does not wait for compilers.
"""

from typing import TYPE_CHECKING

from gbdt_commons._version import __version__ as __version__
from gbdt_commons.public.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
    from gbdt_commons.errors import VeilboostError
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
    from gbdt_parties.identity.aligned_rows import Alignment
    from gbdt_parties.identity.alignment import align
    from gbdt_parties.traffic import Traffic
    from gbdt_parties.transport.remote import RemoteParty
    from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
    from xgb_fed.ciphers.paillier import Paillier
    from xgb_fed.ciphers.plain import Plain
    from xgb_fed.errors import (
        ArgumentTypeError,
        CheckpointError,
        CipherError,
        ClusterError,
        CorruptDataError,
        FederatedTrainingError,
        FewPartiesWarning,
        HeuristicProtectionWarning,
        InsecureClusterError,
        InvalidArgumentError,
        InvalidCiphertextError,
        LabelLeakWarning,
        MissingDependencyError,
        NoPartiesWarning,
        NotEncryptedWarning,
        PackingError,
        PartitionError,
        PlaintextRangeError,
        SchedulerLostError,
        UnsupportedParameterError,
        VersionError,
        WeakKeyError,
        WorkersLostError,
        WrongKeyError,
    )
    from xgb_fed.horizontal.common.model import HorizontalModel
    from xgb_fed.horizontal.estimators import HorizontalXGBClassifier, HorizontalXGBRegressor, train_tfl
    from xgb_fed.horizontal.exact.terms import ExactTerms
    from xgb_fed.horizontal.party import HorizontalParty
    from xgb_fed.horizontal.train_exact import train_exact
    from xgb_fed.horizontal.train_simfl import train_simfl
    from xgb_fed.vertical.estimators.classifier import VerticalXGBClassifier
    from xgb_fed.vertical.estimators.ranker import VerticalXGBRanker
    from xgb_fed.vertical.estimators.regressor import VerticalXGBRegressor
    from xgb_fed.vertical.explaining.contributions import Explanation
    from xgb_fed.vertical.explaining.decision_paths import DecisionPaths, PathStep
    from xgb_fed.vertical.model.model import VerticalModel
    from xgb_fed.vertical.passive.local_party import LocalParty
    from xgb_fed.vertical.training.task import ActiveData
    from xgb_fed.vertical.training.train import train

__all__ = [
    "ActiveData",
    "Alignment",
    "ArgumentTypeError",
    "AuthenticationError",
    "CheckpointError",
    "CipherError",
    "ClusterError",
    "ConsentError",
    "CorruptDataError",
    "DecisionPaths",
    "ExactTerms",
    "Explanation",
    "FederatedTrainingError",
    "FewPartiesWarning",
    "HeuristicProtectionWarning",
    "HorizontalModel",
    "HorizontalParty",
    "HorizontalXGBClassifier",
    "HorizontalXGBRegressor",
    "InsecureClusterError",
    "InvalidArgumentError",
    "InvalidCiphertextError",
    "InvalidDataError",
    "LabelLeakWarning",
    "LocalParty",
    "MissingDependencyError",
    "NoPartiesWarning",
    "NotEncryptedWarning",
    "OkamotoUchiyama",
    "PackingError",
    "Paillier",
    "PartitionError",
    "PartyArgumentError",
    "PartyArgumentTypeError",
    "PartyError",
    "PartyRefusedError",
    "PartyUnavailableError",
    "PathStep",
    "Plain",
    "PlaintextRangeError",
    "ProtocolError",
    "RemoteParty",
    "RowMismatchError",
    "SchedulerLostError",
    "SessionLostError",
    "Traffic",
    "UnsupportedParameterError",
    "VeilboostError",
    "VersionError",
    "VerticalModel",
    "VerticalXGBClassifier",
    "VerticalXGBRanker",
    "VerticalXGBRegressor",
    "WeakKeyError",
    "WorkersLostError",
    "WrongKeyError",
    "align",
    "train",
    "train_exact",
    "train_simfl",
    "train_tfl",
]

_NAMES_OF = {
    "gbdt_commons.errors": ("VeilboostError",),
    "gbdt_parties.errors": (
        "AuthenticationError",
        "ConsentError",
        "InvalidDataError",
        "PartyArgumentError",
        "PartyArgumentTypeError",
        "PartyError",
        "PartyRefusedError",
        "PartyUnavailableError",
        "ProtocolError",
        "RowMismatchError",
        "SessionLostError",
    ),
    "gbdt_parties.identity.aligned_rows": ("Alignment",),
    "gbdt_parties.identity.alignment": ("align",),
    "gbdt_parties.traffic": ("Traffic",),
    "gbdt_parties.transport.remote": ("RemoteParty",),
    "xgb_fed.ciphers.okamoto_uchiyama": ("OkamotoUchiyama",),
    "xgb_fed.ciphers.paillier": ("Paillier",),
    "xgb_fed.ciphers.plain": ("Plain",),
    "xgb_fed.errors": (
        "ArgumentTypeError",
        "CheckpointError",
        "CipherError",
        "ClusterError",
        "CorruptDataError",
        "FederatedTrainingError",
        "FewPartiesWarning",
        "HeuristicProtectionWarning",
        "InsecureClusterError",
        "InvalidArgumentError",
        "InvalidCiphertextError",
        "LabelLeakWarning",
        "MissingDependencyError",
        "NoPartiesWarning",
        "NotEncryptedWarning",
        "PackingError",
        "PartitionError",
        "PlaintextRangeError",
        "SchedulerLostError",
        "UnsupportedParameterError",
        "VersionError",
        "WeakKeyError",
        "WorkersLostError",
        "WrongKeyError",
    ),
    "xgb_fed.horizontal.estimators": (
        "HorizontalXGBClassifier",
        "HorizontalXGBRegressor",
        "train_tfl",
    ),
    "xgb_fed.horizontal.train_exact": ("train_exact",),
    "xgb_fed.horizontal.exact.terms": ("ExactTerms",),
    "xgb_fed.horizontal.party": ("HorizontalParty",),
    "xgb_fed.horizontal.common.model": ("HorizontalModel",),
    "xgb_fed.horizontal.train_simfl": ("train_simfl",),
    "xgb_fed.vertical.explaining.contributions": ("Explanation",),
    "xgb_fed.vertical.explaining.decision_paths": ("DecisionPaths", "PathStep"),
    "xgb_fed.vertical.estimators.classifier": ("VerticalXGBClassifier",),
    "xgb_fed.vertical.passive.local_party": ("LocalParty",),
    "xgb_fed.vertical.model.model": ("VerticalModel",),
    "xgb_fed.vertical.estimators.ranker": ("VerticalXGBRanker",),
    "xgb_fed.vertical.estimators.regressor": ("VerticalXGBRegressor",),
    "xgb_fed.vertical.training.task": ("ActiveData",),
    "xgb_fed.vertical.training.train": ("train",),
}
"""Where each public name is defined, by module."""

__getattr__, __dir__ = _lazy_names(globals(), _NAMES_OF)

"""Private training across organisations that have the same columns and different rows.

Every party adds noise to the sums over its own rows and masks them, so that only the noised sum over all
parties is ever seen (`gbdt_parties.secure_sum`, `lgb_dp.accounting.shares`).
"""

from gbdt_parties.errors import (
    AuthenticationError,
    HardwareKeyError,
    PartyError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    SumRangeError,
)
from gbdt_parties.traffic import Traffic
from lgb_dp.errors import FederatedCheckpointError, FewPartiesWarning, PartiesDifferError
from lgb_dp.federated.coordinator import train
from lgb_dp.federated.estimators import FederatedDPLGBMClassifier, FederatedDPLGBMRegressor
from lgb_dp.federated.ledger import LedgerSums, read_ledger
from lgb_dp.federated.party import Party
from lgb_dp.federated.service import FederatedLimits, FederatedService

__all__ = [
    "AuthenticationError",
    "FederatedCheckpointError",
    "FederatedDPLGBMClassifier",
    "FederatedDPLGBMRegressor",
    "FederatedLimits",
    "FederatedService",
    "FewPartiesWarning",
    "HardwareKeyError",
    "LedgerSums",
    "PartiesDifferError",
    "Party",
    "PartyError",
    "PartyRefusedError",
    "PartyUnavailableError",
    "ProtocolError",
    "SumRangeError",
    "Traffic",
    "read_ledger",
    "train",
]

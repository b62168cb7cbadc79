"""Private training across organisations that have the same columns and different rows.

Every party adds noise to the sums over its own rows and masks them, so that only the noised sum over all
parties is ever seen (`gbdt_parties.secure_sum`, `lgb_dp.accounting.shares`).
"""

from typing import TYPE_CHECKING

from gbdt_commons.public.lazy_names import lazy_names as _lazy_names

if TYPE_CHECKING:
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

_NAMES_OF = {
    "gbdt_parties.errors": (
        "AuthenticationError",
        "HardwareKeyError",
        "PartyError",
        "PartyRefusedError",
        "PartyUnavailableError",
        "ProtocolError",
        "SumRangeError",
    ),
    "gbdt_parties.traffic": ("Traffic",),
    "lgb_dp.errors": (
        "FederatedCheckpointError",
        "FewPartiesWarning",
        "PartiesDifferError",
    ),
    "lgb_dp.federated.coordinator": ("train",),
    "lgb_dp.federated.estimators": (
        "FederatedDPLGBMClassifier",
        "FederatedDPLGBMRegressor",
    ),
    "lgb_dp.federated.ledger": (
        "LedgerSums",
        "read_ledger",
    ),
    "lgb_dp.federated.party": ("Party",),
    "lgb_dp.federated.service": (
        "FederatedLimits",
        "FederatedService",
    ),
}
"""Where each public name is defined, by module."""

__getattr__, __dir__ = _lazy_names(globals(), _NAMES_OF, before="gbdt_hosts.lightgbm.host")

"""Private training across organisations that have the same columns and different rows.

Every party adds noise to the sums over its own rows and masks them, so that nobody sees anything but the
noised sum over all parties (`gbdt_parties.secure_sum`, `lgb_dp.accounting.shares`).
"""

from lgb_dp.federated.coordinator import train
from lgb_dp.federated.party import Party

__all__ = ["Party", "train"]

"""Private training by two parties with different columns of the same rows; both learn the model alone.

The other party is in this process, or behind a server.  Both are assumed to follow the protocol.
"""

from gbdt_parties.run.replay import Replay
from lgb_dp.vertical.auditing.replaying import replay
from lgb_dp.vertical.estimators import VerticalDPLGBMClassifier, VerticalDPLGBMRegressor
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.predicting import predict
from lgb_dp.vertical.prediction.consent import Consent
from lgb_dp.vertical.report import MaskedTraffic
from lgb_dp.vertical.service import ColumnLimits, ColumnService
from lgb_dp.vertical.train import train

__all__ = [
    "ColumnLimits",
    "ColumnParty",
    "ColumnService",
    "Consent",
    "MaskedTraffic",
    "Replay",
    "VerticalDPLGBMClassifier",
    "VerticalDPLGBMRegressor",
    "predict",
    "replay",
    "train",
]

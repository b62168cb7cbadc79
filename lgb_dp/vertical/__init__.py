"""Private training by two parties with different columns of the same rows; both learn the model alone.

Both parties are in one process, and are assumed to follow the protocol.
"""

from lgb_dp.vertical.estimators import VerticalDPLGBMClassifier, VerticalDPLGBMRegressor
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.predicting import predict
from lgb_dp.vertical.prediction.consent import Consent
from lgb_dp.vertical.report import MaskedTraffic
from lgb_dp.vertical.train import train

__all__ = [
    "ColumnParty",
    "Consent",
    "MaskedTraffic",
    "VerticalDPLGBMClassifier",
    "VerticalDPLGBMRegressor",
    "predict",
    "train",
]

"""XGBoost models trained across organisations under encryption (in preparation; the ciphers are ready)."""

from xgb_fed.naive_paillier import NaivePaillier
from xgb_fed.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.paillier import Paillier
from xgb_fed.plain import Plain

__all__ = ["NaivePaillier", "OkamotoUchiyama", "Paillier", "Plain"]

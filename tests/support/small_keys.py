"""Keys that are small enough for tests."""

from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier

SCHEMES = [Paillier, OkamotoUchiyama]
KEYS = {scheme: scheme(512, allow_weak_key=True).generate() for scheme in SCHEMES}

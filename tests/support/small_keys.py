"""Keys that are small enough for tests."""

from gbdt_kernels.residues import decode
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier

SCHEMES = [Paillier, OkamotoUchiyama]
KEYS = {scheme: scheme(512, allow_weak_key=True).generate() for scheme in SCHEMES}


def integers_of(key, rows):
    """Ciphertexts as integers, as other libraries have them."""
    return decode(rows, key.modulus, key.n_threads)

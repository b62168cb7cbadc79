"""Keys that are small enough for tests, made once in a process and the same in all."""

from functools import cache

from gbdt_kernels.residues import decode
from pinned_draws import pinned_draws
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier

SCHEMES = [Paillier, OkamotoUchiyama]


@cache
def key_of(scheme, bits):
    """A key that no test makes anew."""
    with pinned_draws(f"{scheme.__name__} {bits}"):
        return scheme(bits, allow_weak_key=True).generate()


KEYS = {scheme: key_of(scheme, 512) for scheme in SCHEMES}


def integers_of(key, rows):
    """Ciphertexts as integers, as other libraries have them."""
    return decode(rows, key.modulus, key.n_threads)

"""Ciphertexts of a fixed key and a fixed stream: their bytes stay, whatever becomes faster, on every path."""

import hashlib

import gmpy2
import pytest

from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey
from xgb_fed.ciphers.paillier import PaillierKey
from xgb_fed.ciphers.primes import FactoredPrime
from xgb_fed.ciphers.randomness import SecretStream

P = FactoredPrime(340191543995872302835041685164851543459, (17744086481972691089, 2, 9586054045146077761))
Q = FactoredPrime(311319194727221331304021938955204522463, (2, 13008212191652759071, 11966256013527814961))
KEYS = {
    "paillier": (PaillierKey, (P, Q)),
    "paillier-mixed": (PaillierKey, (P, Q.value)),
    "okamoto-uchiyama": (OkamotoUchiyamaKey, (P, 272872933528943125990378062547494251231)),
}
DIGESTS = {
    "paillier": "4a582eff80ac8998d29210d6a325e1684ee40d0eb3c97cfdaebccc708408a67d",
    "paillier-mixed": "a197980116c5fc3f6ee6b99f77359b9fc85136fff6ef94992385dc3be6d92a4f",
    "okamoto-uchiyama": "b805516ef84946fc1037b12c32c88634833472b343f0706ebbf190fc26d78df1",
}


def least_generator(prime):
    p = prime.value
    return next(x for x in range(2, p) if all(gmpy2.powmod(x, (p - 1) // f, p) != 1 for f in prime.factors))


@pytest.mark.parametrize("scheme", KEYS)
def test_bytes_of_ciphertexts(path, scheme, monkeypatch):
    monkeypatch.setattr(FactoredPrime, "generator", least_generator)
    make, primes = KEYS[scheme]
    key = make(*primes, allow_weak_key=True, random=SecretStream(bytes(range(32))))
    limit = key.public.plaintext_limit
    digest = hashlib.sha256()
    for plaintexts in ([], [0], [0, 1, limit - 1], [5] * 13, [limit >> k for k in range(1, 90)]):
        ciphertexts = key.encrypt(plaintexts)
        assert key.decrypt(ciphertexts) == plaintexts
        digest.update(ciphertexts.tobytes())
    assert digest.hexdigest() == DIGESTS[scheme]

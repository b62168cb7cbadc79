"""Secrets of a key stay inside it."""

import logging
import pickle

import pytest

from secret_numbers import secret_primes
from xgb_fed import OkamotoUchiyama, Paillier
from xgb_fed.ciphers.primes import FactoredPrime

SCHEMES = [Paillier(256, allow_weak_key=True), OkamotoUchiyama(256, allow_weak_key=True)]


def secrets_of(key):
    """The secret numbers, as decimal and hexadecimal text."""
    numbers = [x for prime, factors in secret_primes(key) for x in (prime, *factors)]
    long = [x for x in numbers if x > 1 << 60]
    return [str(x) for x in long] + [f"{x:x}" for x in long]


def test_secrets_stay_inside(key, caplog):
    caplog.set_level(logging.DEBUG)
    key.public.obfuscators.prepare(2)
    key.decrypt(key.encrypt([1]))
    shown = [repr(key), str(key), repr(key.public), repr(key.obfuscators), caplog.text]
    inner = [repr(x) for x in vars(key).values() if not isinstance(x, int | tuple)]
    public = [pickle.dumps(key.public), key.public.public_bytes(), key.public.to_bytes(key.encrypt([1]))]
    for secret in secrets_of(key):
        assert not any(secret in text for text in shown + inner)
        number = int(secret, 16) if not secret.isdigit() else int(secret)
        assert not any(number.to_bytes(-(-number.bit_length() // 8), "little") in data for data in public)
    copy = pickle.loads(public[0])
    assert copy == key.public
    assert len(copy.obfuscators) == 0
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_prepared_obfuscators_and_factored_primes_are_not_pickled(scheme):
    key = scheme.generate()
    for secret in (key, key.obfuscators, FactoredPrime(7, (2, 3))):
        with pytest.raises(TypeError, match="secret"):
            pickle.dumps(secret)

"""The secret numbers of keys, read from the bytes that keys are saved as."""

from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyamaKey
from xgb_fed.ciphers.residue_key import read_numbers
from xgb_fed.ciphers.serialization import PayloadKind


def secret_primes(key):
    """The primes of a key's modulus, each with the known factors of itself less one; p of p²·q first."""
    _, numbers = read_numbers(key.private_bytes(), PayloadKind.PRIVATE_KEY)
    if isinstance(key, OkamotoUchiyamaKey):
        q, p, *factors = numbers
        return [(p, factors), (q, [])]
    found = []
    while numbers:
        prime, n_factors, *numbers = numbers
        found.append((prime, numbers[:n_factors]))
        numbers = numbers[n_factors:]
    return found


def group_order(key):
    """A multiple of the order of the group that randomness is from."""
    (p, _), (q, _) = secret_primes(key)
    return (p - 1) * (q - 1)

import gmpy2
import pytest

from xgb_fed.ciphers import primes
from xgb_fed.errors import CipherError


@pytest.mark.parametrize("bits", [64, 171, 512])
def test_factored_primes(bits):
    low, high = primes.smallest_of(bits, 2), 1 << bits
    prime = primes.random_factored_prime(low, high)
    assert low <= prime.value < high
    x = prime.generator()
    for factor in prime.factors:
        assert pow(x, (prime.value - 1) // factor, prime.value) != 1
    assert str(prime.value) not in repr(prime)


def test_products_have_full_length():
    for bits, copies in [(1024, 2), (683, 3), (64, 2)]:
        low = primes.smallest_of(bits, copies)
        assert (low**copies).bit_length() == bits * copies
        assert ((low - 1) ** copies).bit_length() < bits * copies


def test_claims_are_checked():
    with pytest.raises(CipherError):
        primes.FactoredPrime(23, (2,))
    with pytest.raises(CipherError):
        primes.FactoredPrime(23, (22,))
    with pytest.raises(CipherError):
        primes.FactoredPrime(15, (2, 7))


def test_uniform_primes_stay_in_range():
    assert {primes.random_prime(90, 102) for _ in range(50)} == {97, 101}
    assert gmpy2.is_prime(primes.random_prime(1 << 99, 1 << 100))

import gmpy2
import pytest

from xgb_fed.ciphers import primes
from xgb_fed.ciphers.paillier import PaillierKey
from xgb_fed.errors import CipherError, WeakKeyError


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


def fermat(n, steps):
    """The factors of n, if they are that close to its square root."""
    root, exact = gmpy2.iroot(n, 2)
    a = root if exact else root + 1
    for _ in range(steps):
        square = a * a - n
        if gmpy2.is_square(square):
            return int(a - gmpy2.isqrt(square)), int(a + gmpy2.isqrt(square))
        a += 1
    return None


def test_attack_on_primes_that_are_close_and_their_refusal():
    """Fermat's method finds neighbouring primes at once; keys of such primes are not accepted."""
    p = primes.random_prime(3 << 1022, 1 << 1024)  # so that products have 2048 bits
    near = int(gmpy2.next_prime(p))
    assert fermat(p * near, 10) == (p, near)
    with pytest.raises(WeakKeyError, match="close to each"):
        PaillierKey(p, near)
    edge = 1 << (1024 - 100)
    beyond = int(gmpy2.next_prime(p + edge))
    within = int(gmpy2.prev_prime(p + edge)) if hasattr(gmpy2, "prev_prime") else near
    assert primes.are_too_close(p, within)
    assert primes.are_too_close(within, p)
    assert not primes.are_too_close(p, beyond)
    assert PaillierKey(p, beyond).public.n == p * beyond

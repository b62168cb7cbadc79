"""Public keys that cannot be honest are refused."""

import math

import pytest

from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.errors import CipherError


@pytest.mark.parametrize(
    ("factors", "is_accepted"),
    [
        ((65521, 2**521 - 1), False),  # the largest prime below 2^16
        ((65537, 2**521 - 1), True),  # the smallest above: larger factors are not looked for
        ((65537, 65537), False),
    ],
)
def test_public_keys_with_a_factor_below_65536_or_that_are_powers_are_refused(factors, is_accepted):
    data = ResidueKey("paillier", math.prod(factors)).public_bytes()
    if is_accepted:
        assert ResidueKey.from_public_bytes(data).key_id == ResidueKey("paillier", math.prod(factors)).key_id
    else:
        with pytest.raises(CipherError, match="public part"):
            ResidueKey.from_public_bytes(data)


def test_public_keys_of_every_scheme_are_read(key):
    read = read_public_key(key.public.public_bytes())
    assert type(read) is ResidueKey
    assert (read.key_id, read.n) == (key.public.key_id, key.public.n)
    plain = Plain(500).generate().public
    assert read_public_key(plain.public_bytes()).key_id == plain.key_id
    assert type(read_public_key(plain.public_bytes())) is type(plain)

"""Keys whose ciphertexts are residues: their sizes, their bytes, sums under them."""

import numpy as np
import pytest

from packed_fields import decoded_pairs
from small_keys import SCHEMES
from xgb_fed import Plain
from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.primes import FactoredPrime
from xgb_fed.ciphers.residue_key import ResidueKey, number_rows
from xgb_fed.errors import CipherError, CorruptDataError, PlaintextRangeError, WeakKeyError
from xgb_fed.vertical.passive.histogram import build_histograms
from xgb_fed.vertical.protocol.packing import GHPacking


def test_histogram_and_compression(key):
    rng = np.random.default_rng(3)
    values = [int(v) for v in rng.integers(0, 1 << 20, 100)]
    codes = rng.integers(0, 4, (100, 2)).astype(np.uint8)
    rows, starts, offsets = np.arange(100), np.array([0, 60, 100]), np.array([0, 4, 8])
    public = key.public
    histogram = build_histograms(public, [key.encrypt(values)], codes, rows, starts, offsets).sums[0]
    flat = histogram.reshape(-1, histogram.shape[-1])
    sums = key.decrypt(flat)
    assert sum(sums[:4]) == sum(sums[4:8]) == sum(values[:60])
    packed = public.rerandomise(public.compress(flat, 30, 5))
    fields = [x >> (30 * (4 - k)) & ((1 << 30) - 1) for x in key.decrypt(packed) for k in range(5)]
    assert fields[:16] == sums
    assert not any(fields[16:])


def test_keys_survive_their_bytes(key):
    rows = key.encrypt([11, 12])
    with pytest.raises(WeakKeyError):
        type(key).from_private_bytes(key.private_bytes())
    again = type(key).from_private_bytes(key.private_bytes(), allow_weak_key=True)
    assert again.decrypt(rows) == [11, 12]
    assert key.decrypt(again.encrypt([13])) == [13]
    assert ResidueKey.from_public_bytes(key.public.public_bytes()) == key.public


@pytest.mark.parametrize("scheme", SCHEMES)
def test_weak_keys(scheme):
    with pytest.raises(WeakKeyError, match="allow_weak_key"):
        scheme(1024)
    with pytest.raises(ValueError, match="at least"):
        scheme(64, allow_weak_key=True)
    assert scheme(128, allow_weak_key=True).key_length == 128


def test_a_public_key_has_the_name_of_its_number(key):
    public = key.public
    numbers = number_rows([public.n])
    with pytest.raises(CorruptDataError, match=r"id.*belong"):
        ResidueKey.from_public_bytes(
            wire.pack(wire.PayloadKind.PUBLIC_KEY, public.scheme, bytes(16), numbers)
        )


@pytest.mark.parametrize("scheme", SCHEMES)
def test_default_keys_are_2048_bits_and_decrypt(scheme):
    key = scheme().generate()
    assert key.public.n.bit_length() == 2048
    values = [0, key.public.plaintext_limit - 1, 12345]
    assert key.decrypt(key.public.rerandomise(key.encrypt(values))) == values
    if scheme is OkamotoUchiyama:
        assert key.public.plaintext_limit == 1 << 682


def test_a_sum_over_more_rows_than_planned_is_refused():
    packing = GHPacking(1, 0, 1, 1, 0)
    with pytest.raises(PlaintextRangeError, match="2 rows"):
        decoded_pairs(packing, [1], [2])


def test_factors_that_do_not_divide_are_refused():
    with pytest.raises(CipherError, match="divide"):
        FactoredPrime(7, (2, 3, 5))


def test_nothing_is_still_a_message():
    public = Plain().generate().public
    assert len(public.from_bytes(public.to_bytes(Plain().generate().encrypt([])))) == 0

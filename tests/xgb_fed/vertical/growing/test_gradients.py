"""Sums of gradients against Python's integers and fractions, which have no limits."""

import math
import time
from fractions import Fraction
from itertools import combinations
from threading import Event

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xgb_fed
from allocated import peak_of
from gbdt_kernels.residues.limbs import from_rows
from gbdt_parties import messages
from packed_fields import decoded
from scaled_gradients import CLOSE, LIMIT, gradients, scaled
from small_keys import key_of
from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.serialization import packed_bytes
from xgb_fed.ciphers.short_ciphertexts import short_words
from xgb_fed.errors import PlaintextRangeError
from xgb_fed.vertical.growing import gradients as gradients_of_rounds
from xgb_fed.vertical.growing.gradients import FixedPointGradients, GradientsAhead, apart_from_zero
from xgb_fed.vertical.protocol.packing import packing_for
from xgb_fed.vertical.trees.partition import Partition


def added_plaintexts(own, selections):
    """Sums of the plaintexts of selected rows, per group of classes: what decrypted histograms hold."""
    plaintexts = own.plaintexts(np.arange(len(own.g), dtype=np.int32))
    numbers = [[int.from_bytes(row.astype("<u8").tobytes(), "little") for row in rows] for rows in plaintexts]
    return [
        [sum(n for n, taken in zip(group, selected, strict=True) if taken) for selected in selections]
        for group in numbers
    ]


@given(gradients())
@settings(max_examples=40)
def test_the_largest_value_decides_the_power_of_two(pair):
    own = scaled(*pair)
    for values, integers, exponent in zip(
        pair, (own.g, own.h), (own.g_exponent, own.h_exponent), strict=True
    ):
        largest = np.abs(values).max()
        unit = Fraction(2) ** exponent
        assert Fraction(float(largest)) <= unit
        if largest:
            assert Fraction(float(largest)) > unit / 2
            assert 1 << 52 < np.abs(integers).max() <= 1 << 53
        else:
            assert not integers.any()
        step = unit / (1 << 53)
        for value, integer in zip(values.ravel().tolist(), integers.ravel().tolist(), strict=True):
            assert abs(integer * step - Fraction(value)) <= step / 2


@given(gradients())
@settings(max_examples=40)
def test_positive_hessians_that_are_kept_apart_from_zero_stay_positive(pair):
    """XGBoost tells a node without hessian, which weighs 0, from one that has little."""
    g, h = pair[0], pair[1].astype(np.float32)
    own = scaled(g, apart_from_zero(h))
    assert np.array_equal(own.h > 0, h > 0)
    large = h >= np.ldexp(h.max(), -52)
    assert np.array_equal(own.h[large], scaled(g, h).h[large])


@given(gradients(CLOSE))
@settings(max_examples=40)
def test_values_of_one_scale_come_back_exactly(pair):
    """Half-precision numbers in [−1, 1] are multiples of 2^-24: 53 bits hold all of them."""
    own = scaled(*pair)
    alone = Partition(np.arange(len(pair[0]), dtype=np.int32), np.arange(len(pair[0]) + 1))
    g, h = own.to_float(own.node_sums(alone)[0])
    for got, expected in zip((g.T, h.T), pair, strict=True):
        np.testing.assert_array_equal(got, expected)


@given(gradients(), st.sampled_from([LIMIT, 1 << 250]), st.data())
@settings(max_examples=40)
def test_sums_of_plaintexts_decode_to_the_sums(pair, limit, data):
    n_rows, n_classes = pair[0].shape
    packing = packing_for(n_rows, n_classes, limit)
    own = FixedPointGradients.scaled(*pair, packing)
    left = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    sums, counts = own.node_sums(Partition.root(n_rows).children({0: left}))
    packed = added_plaintexts(own, [left, ~left])
    assert all(value < limit for group in packed for value in group)
    g, h = decoded(packing, packed, counts)
    expected_g, expected_h = own.to_float(sums)
    np.testing.assert_array_equal(np.ldexp(g, own.g_exponent), expected_g.T)
    np.testing.assert_array_equal(np.ldexp(h, own.h_exponent), expected_h.T)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("scale", [1e-45, 1e-6, 0.25, 1.0, 7e30, 3.4e38])
def test_fields_hold_the_sum_of_all_rows_at_their_largest(sign, scale):
    """As a weight or an amplification of any size would make them: bits do not depend on it."""
    n_rows = 1000
    g, h = np.full((n_rows, 2), sign * np.float32(scale)), np.full((n_rows, 2), np.float32(scale))
    own = scaled(g.astype(np.float64), h.astype(np.float64))
    gh = own.packing.gh
    assert gh.bits == packing_for(n_rows, 2, LIMIT).gh.bits == 2 * 53 + 11 + 10
    counts = np.array([n_rows])
    ((packed,),) = added_plaintexts(own, [np.ones(n_rows, dtype=bool)])
    assert packed < 1 << (2 * gh.bits)
    got_g, got_h = decoded(own.packing, [[packed]], counts)
    total = n_rows * float(np.float32(scale))
    np.testing.assert_array_equal(np.ldexp(got_g, own.g_exponent), [[sign * total] * 2])
    np.testing.assert_array_equal(np.ldexp(got_h, own.h_exponent), [[total] * 2])


def test_no_rows_and_no_gradients():
    own = scaled(np.zeros((3, 1)), np.zeros((3, 1)))
    assert (own.g_exponent, own.h_exponent) == (0, 0)
    empty = Partition.root(3).kept(np.zeros(3, dtype=bool))
    sums, counts = own.node_sums(empty)
    assert counts.tolist() == [0]
    assert own.to_float(sums)[0].tolist() == [[0.0]]


def test_sums_over_nodes_take_no_more_memory_than_the_gradients():
    rng = np.random.default_rng(0)
    own = scaled(rng.normal(size=(40_000, 1)), rng.random((40_000, 1)))
    root = Partition.root(len(own.g))
    (sums, counts), peak = peak_of(lambda: own.node_sums(root))
    assert counts.tolist() == [len(own.g)]
    assert own.to_float(sums)[0][0, 0] == pytest.approx(np.ldexp(own.g.sum(dtype=float), own.g_exponent - 53))
    assert peak < own.halves.nbytes


N_ROWS = 50


def gradients_of(key, n_classes=1):
    random = np.random.default_rng(0)
    packing = packing_for(N_ROWS, n_classes, key.public.plaintext_limit)
    g, h = random.normal(size=(2, N_ROWS, n_classes))
    return FixedPointGradients.scaled(g, np.abs(h), packing)


@pytest.mark.parametrize("rows_of_part", [1, 4, 100])
@pytest.mark.parametrize("bits", [2047, 400])
def test_the_bytes_are_those_of_whole_messages(monkeypatch, rows_of_part, bits):
    """With one ciphertext per row, and with several."""
    key = Plain(bits)
    monkeypatch.setattr(gradients_of_rounds, "PART_BYTES", rows_of_part * key.ciphertext_bytes)
    gradients = gradients_of(key, 5)
    assert len(gradients.packing.groups) == (1 if bits == 2047 else 2)
    rows = np.arange(1, N_ROWS, 2, dtype=np.int32)
    with GradientsAhead(key, gradients, rows, 10) as ahead:
        sent = list(ahead)
        received = [bytes(message.values) for message in sent]
    plaintexts = gradients.plaintexts(rows)
    expected = [(k, start) for k in range(len(plaintexts)) for start in (0, 10, 20)]
    assert [(message.group, message.start) for message in sent] == expected
    for message, values in zip(sent, received, strict=True):
        whole = key.to_bytes(key.encrypt(plaintexts[message.group][message.start : message.start + 10]))
        assert values == whole
        assert len(message.values) == message.ciphertext_bytes == len(whole)
        written = messages.write(b"s" * 16, 3, message)
        assert messages.read(written).message.values == whole


def test_ciphertexts_in_parts_are_read_back():
    key = key_of(xgb_fed.OkamotoUchiyama, 1024)
    with GradientsAhead(key, gradients_of(key), np.arange(9, dtype=np.int32), 5) as ahead:
        read = [m for message in ahead for m in key.decrypt(key.public.from_bytes(bytes(message.values)))]
    words = gradients_of(key).plaintexts(np.arange(9))[0]
    assert read == [int.from_bytes(row.tobytes(), "little") for row in words]


def test_gradients_under_okamoto_uchiyama_are_sent_in_short_form(monkeypatch):
    """In messages of several parts, of which each has its bytes ready before the last one is made."""
    key = key_of(xgb_fed.OkamotoUchiyama, 1024)
    monkeypatch.setattr(gradients_of_rounds, "PART_BYTES", 3 * key.public.ciphertext_bytes)
    with GradientsAhead(key, gradients_of(key), np.arange(9, dtype=np.int32), 9) as ahead:
        [message] = ahead
        data = bytes(message.values)
    assert len(data) == len(message.values) == packed_bytes(1 + 9, short_words(1024))
    assert len(data) < len(key.public.to_bytes(key.public.from_bytes(data)))


def test_equal_gradients_are_encrypted_anew_for_every_row_and_message(monkeypatch):
    """Two short ciphertexts that agreed modulo p² would have n's factor in common."""
    key = key_of(xgb_fed.OkamotoUchiyama, 512)
    monkeypatch.setattr(gradients_of_rounds, "PART_BYTES", 3 * key.public.ciphertext_bytes)
    ones = np.ones((9, 1))
    gradients = FixedPointGradients.scaled(ones, ones, packing_for(9, 1, key.public.plaintext_limit))
    sent = []
    for _ in range(2):
        with GradientsAhead(key, gradients, np.arange(9, dtype=np.int32), 5) as ahead:
            for message in ahead:
                first, again = (bytes(message.values) for _ in range(2))
                assert first == again
                sent += from_rows(key.public.from_bytes(first))
    assert len(sent) == 18
    assert {math.gcd(a - b, key.public.n) for a, b in combinations(sent, 2)} == {1}


class Slow(Plain):
    """Encrypts when it is told to, and notes what it encrypted."""

    def __init__(self):
        super().__init__()
        object.__setattr__(self, "allowed", Event())
        object.__setattr__(self, "encrypted", [])

    def encrypt(self, plaintexts):
        assert self.allowed.wait(60)
        self.encrypted.append(len(plaintexts))
        return super().encrypt(plaintexts)


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_one_message_is_encrypted_ahead_and_not_more():
    key = Slow()
    with GradientsAhead(key, gradients_of(key), np.arange(N_ROWS, dtype=np.int32), 10) as ahead:
        first = next(iter(ahead))
        # It is given before anything is encrypted: whoever sends it waits for its parts.
        assert not key.encrypted
        key.allowed.set()
        assert bytes(first.values)
        wait_for(lambda: len(key.encrypted) == 2)
        time.sleep(0.05)
        assert key.encrypted == [10, 10]


def test_what_is_given_up_is_not_encrypted(monkeypatch):
    key = Slow()
    with GradientsAhead(key, gradients_of(key), np.arange(N_ROWS, dtype=np.int32), 10) as ahead:
        next(iter(ahead))
        shutdown = ahead.worker.shutdown

        def give_up(**how):
            shutdown(wait=False, **how)
            key.allowed.set()
            shutdown()

        monkeypatch.setattr(ahead.worker, "shutdown", give_up)
    assert key.allowed.is_set()
    assert len(key.encrypted) <= 1


def test_an_error_of_encryption_reaches_whoever_sends():
    key = Plain()
    gradients = gradients_of(key)
    rows = np.arange(5, dtype=np.int32)
    narrow = Plain(8)
    with GradientsAhead(narrow, gradients, rows, 5) as ahead, pytest.raises(PlaintextRangeError):
        bytes(next(iter(ahead)).values)


def test_no_rows_give_no_messages():
    with GradientsAhead(Plain(), gradients_of(Plain()), np.empty(0, dtype=np.int32), 10) as ahead:
        assert not list(ahead)

import math
import time
from itertools import combinations
from threading import Event

import numpy as np
import pytest

import xgb_fed
from gbdt_kernels.residues.limbs import from_rows
from gbdt_parties import messages
from small_keys import key_of
from xgb_fed.ciphers.plain import Plain
from xgb_fed.ciphers.serialization import packed_bytes
from xgb_fed.ciphers.short_ciphertexts import short_words
from xgb_fed.errors import PlaintextRangeError
from xgb_fed.vertical.growing import gradients_ahead
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.growing.gradients_ahead import GradientsAhead
from xgb_fed.vertical.protocol.packing import packing_for

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
    monkeypatch.setattr(gradients_ahead, "PART_BYTES", rows_of_part * key.ciphertext_bytes)
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
    monkeypatch.setattr(gradients_ahead, "PART_BYTES", 3 * key.public.ciphertext_bytes)
    with GradientsAhead(key, gradients_of(key), np.arange(9, dtype=np.int32), 9) as ahead:
        [message] = ahead
        data = bytes(message.values)
    assert len(data) == len(message.values) == packed_bytes(1 + 9, short_words(1024))
    assert len(data) < len(key.public.to_bytes(key.public.from_bytes(data)))


def test_equal_gradients_are_encrypted_anew_for_every_row_and_message(monkeypatch):
    """Two short ciphertexts that agreed modulo p² would have n's factor in common."""
    key = key_of(xgb_fed.OkamotoUchiyama, 512)
    monkeypatch.setattr(gradients_ahead, "PART_BYTES", 3 * key.public.ciphertext_bytes)
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
        shutdown = ahead._worker.shutdown

        def give_up(**how):
            shutdown(wait=False, **how)
            key.allowed.set()
            shutdown()

        monkeypatch.setattr(ahead._worker, "shutdown", give_up)
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

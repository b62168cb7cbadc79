"""The scheme without encryption, for tests; and that the optional library phe stays optional."""

import subprocess
import sys

import numpy as np
import pytest

from xgb_fed.ciphers import serialization as wire
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import CipherError, InvalidCiphertextError, PlaintextRangeError, WrongKeyError
from xgb_fed.vertical.passive.histogram import build_histograms


@pytest.fixture
def key():
    return Plain(500).generate()


def test_arithmetic(key):
    public = key.public
    a, b = key.encrypt([10, 20, 30]), key.encrypt([1, 2, 3])
    assert key.decrypt(public.add(a, b)) == [11, 22, 33]
    assert key.decrypt(public.subtract(a, b)) == [9, 18, 27]
    assert key.decrypt(public.scale(a, 3)) == [80, 160, 240]
    assert key.decrypt(public.sum_by_index(a, np.array([2, 0, 1]), np.array([0, 0, 2, 3]))) == [0, 40, 20]
    codes = np.array([[0, 1], [1, 1], [0, 0]], dtype=np.uint8)
    built = build_histograms(public, [a], codes, np.arange(3), np.array([0, 3]), np.array([0, 2, 4]))
    assert key.decrypt(built.sums[0][0]) == [40, 20, 30, 30]
    assert key.decrypt(public.compress(a, 8, 2)) == [(10 << 8) + 20, 30 << 8]
    assert key.decrypt(public.rerandomise(a)) == [10, 20, 30]


def test_nothing_is_made_ahead(key):
    assert not key.prepare(10)
    assert not key.public.prepare(10)


def test_bytes(key):
    public = key.public
    data = public.to_bytes(key.encrypt([4, 5]))
    assert key.decrypt(public.from_bytes(data)) == [4, 5]
    with pytest.raises(CipherError):
        public.from_bytes(data[:-1])
    with pytest.raises(WrongKeyError):
        Plain(501).from_bytes(data)
    with pytest.raises(CipherError):
        public.from_bytes(public.public_bytes())


def test_bytes_of_other_integers_are_refused(key):
    largest = key.encrypt([key.public.plaintext_limit - 1])
    assert (key.public.from_bytes(key.public.to_bytes(largest)) == largest).all()
    beyond = largest.copy()
    beyond[0, -1] += 1
    for rows in (beyond, np.pad(largest, ((0, 0), (0, 1))), largest[:, :-1]):
        with pytest.raises(InvalidCiphertextError, match="plaintext space"):
            key.public.from_bytes(wire.pack(wire.PayloadKind.CIPHERTEXTS, key.scheme, key.key_id, rows))


def test_range(key):
    for bad in (-1, key.public.plaintext_limit):
        with pytest.raises(PlaintextRangeError):
            key.encrypt([bad])


def test_phe_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "phe", None)
    with pytest.raises(ImportError, match=r"veilboost\[phe\]"):
        Paillier(512, allow_weak_key=True).generate().to_phe()


def test_core_does_not_import_phe():
    code = "import sys, xgb_fed; print('phe' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"

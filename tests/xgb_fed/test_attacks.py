"""What an attack on the ciphers found, each now a test."""

import os
import pickle

import numpy as np
import pytest

from gbdt_kernels.residues.indices import check_starts
from packed_fields import decoded_pairs
from xgb_fed import OkamotoUchiyama, Paillier, Plain
from xgb_fed.ciphers.primes import FactoredPrime
from xgb_fed.errors import CipherError, PlaintextRangeError
from xgb_fed.vertical.protocol.packing import GHPacking

SCHEMES = [Paillier(256, allow_weak_key=True), OkamotoUchiyama(256, allow_weak_key=True)]


def in_a_forked_child(work):
    """The bytes that `work` gives in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, work())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        return answer.read()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_a_forked_child_uses_no_obfuscator_of_its_parent(scheme):
    key = scheme.generate()
    key.obfuscators.prepare(4)
    key.public.obfuscators.prepare(4)
    one = key.encrypt([1])
    key.obfuscators.prepare(4)
    for work in (lambda: key.encrypt([1]).tobytes(), lambda: key.public.rerandomise(one).tobytes()):
        assert in_a_forked_child(work) != work()


@pytest.mark.parametrize("rows", [np.array([[-1]]), np.array([[1.7], [np.nan]])])
@pytest.mark.parametrize("scheme", [*SCHEMES, Plain()], ids=lambda s: type(s).__name__)
def test_rows_of_plaintext_words_must_be_words(scheme, rows):
    with pytest.raises(PlaintextRangeError, match="uint64"):
        scheme.generate().encrypt(rows)


def test_a_sum_over_more_rows_than_planned_is_refused():
    packing = GHPacking(1, 0, 1, 1, 1, 0)
    with pytest.raises(PlaintextRangeError, match="2 rows"):
        decoded_pairs(packing, [1], [2])


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda s: type(s).__name__)
def test_prepared_obfuscators_and_factored_primes_are_not_pickled(scheme):
    key = scheme.generate()
    for secret in (key, key.obfuscators, FactoredPrime(7, (2, 3))):
        with pytest.raises(TypeError, match="secret"):
            pickle.dumps(secret)


def test_factors_that_do_not_divide_are_refused():
    with pytest.raises(CipherError, match="divide"):
        FactoredPrime(7, (2, 3, 5))


def test_nothing_is_still_a_message():
    public = Plain().generate().public
    assert len(public.from_bytes(public.to_bytes(Plain().generate().encrypt([])))) == 0


def test_starts_must_be_signed():
    with pytest.raises(ValueError, match="signed"):
        check_starts(np.array([5, 0], dtype=np.uint64), 10)

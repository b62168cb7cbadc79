"""A passive party that lies about its columns: one error, whatever the lie."""

import numpy as np
import pytest

from gbdt_parties.errors import ProtocolError
from liars import Liar, X, fit_with
from packed_fields import fields_of
from xgb_fed import OkamotoUchiyama, Paillier, Plain
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.vertical.protocol.messages import SplitStatistics, TrainingOpened


def sums_of(answer, opening):
    key = read_public_key(opening.public_key)
    return key, key.from_bytes(answer.sums)


def on_sums(change):
    """A lie about the ciphertexts."""

    def lie(answer, opening):
        key, rows = sums_of(answer, opening)
        return {"sums": key.to_bytes(change(key, rows))}

    return lie


def on_fields(change):
    """A lie about the integers of `Plain`: ``change(fields, n_sums, bits)`` changes them in place."""

    def lie(answer, opening):
        key, rows = sums_of(answer, opening)
        per = (key.plaintext_limit.bit_length() - 1) // opening.field_bits
        fields = [f for value in key.decrypt(rows) for f in fields_of(value, opening.field_bits, per)]
        change(fields, np.count_nonzero(answer.counts), opening.field_bits)
        packed = [
            sum(f << opening.field_bits * (per - 1 - k) for k, f in enumerate(fields[at : at + per]))
            for at in range(0, len(fields), per)
        ]
        return {"sums": key.to_bytes(key.encrypt(packed))}

    return lie


def assign(index, function):
    def change(fields, n_sums, bits):
        fields[index] = function(fields, bits)

    return change


def beyond_the_fields(fields, n_sums, bits):
    assert n_sums < len(fields)
    fields[n_sums] = 1


def swapped(fields, n_sums, bits):
    other = next(k for k, field in enumerate(fields) if field != fields[0])
    fields[0], fields[other] = fields[other], fields[0]


LIES = {
    "a doubled sum": on_sums(lambda key, rows: key.add(rows, rows)),
    "ciphertexts in another order": on_sums(lambda key, rows: np.concatenate([rows[1:], rows[:1]])),
    "one ciphertext too few": on_sums(lambda key, rows: rows[:-1]),
    "one too many": on_sums(lambda key, rows: np.concatenate([rows, rows[:1]])),
    "none": on_sums(lambda key, rows: rows[:0]),
    "no ciphertexts at all": lambda answer, opening: {"sums": b"garbage" * 20},
    "nothing": lambda answer, opening: {"sums": b""},
    "cut off": lambda answer, opening: {"sums": answer.sums[:-5]},
    "a key": lambda answer, opening: {"sums": opening.public_key},
    "of another key": lambda answer, opening: {"sums": Plain(300).to_bytes(Plain(300).encrypt([1, 2, 3]))},
    "another number of nodes": lambda answer, opening: {"counts": np.tile(answer.counts, 2)},
    "no nodes": lambda answer, opening: {"counts": answer.counts[:0]},
    "bins in another order": lambda answer, opening: {"counts": answer.counts[::-1].copy()},
    "a row too many": lambda answer, opening: {"counts": answer.counts + (answer.counts > 0)},
    "absurdly many": lambda answer, opening: {"counts": np.full_like(answer.counts, np.iinfo(np.int32).max)},
    "fewer counts": lambda answer, opening: {"counts": answer.counts[:-1]},
    "counts of zero": lambda answer, opening: {"counts": 0 * answer.counts},
    "negative counts": lambda answer, opening: {"counts": -answer.counts},
    "counts of everything": lambda answer, opening: {"counts": np.full_like(answer.counts, len(X))},
    "counts of a few rows": lambda answer, opening: {"counts": np.minimum(answer.counts, 1)},
}


PLAIN_LIES = {
    "a wrong bin": on_fields(assign(0, lambda f, bits: f[0] + 1)),
    "swapped bins": on_fields(swapped),
    "a sum beyond its rows": on_fields(assign(1, lambda f, bits: sum(f))),
    "a g beyond its rows": on_fields(assign(1, lambda f, bits: (1 << bits) - 1)),
    "a sum of nothing": on_fields(assign(1, lambda f, bits: 0)),
    "more fields than announced": on_fields(beyond_the_fields),
}


@pytest.fixture(scope="module")
def the_error():
    """What the simplest lie gives."""
    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, LIES["nothing"]))
    return caught.value


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("lie", [*LIES.values(), *PLAIN_LIES.values()], ids=[*LIES, *PLAIN_LIES])
def test_every_lie_about_statistics_gives_the_same_error(lie, after, the_error):
    """The reason would answer questions about the key: type, text and cause are the same for all."""
    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, lie, after))
    assert (type(caught.value), str(caught.value)) == (type(the_error), str(the_error))
    assert caught.value.__suppress_context__
    assert "'party 0'" in str(the_error)


@pytest.mark.parametrize(
    "scheme", [Paillier(512, True), OkamotoUchiyama(512, True)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize(
    "name", ["a doubled sum", "ciphertexts in another order", "one too many", "cut off", "of another key"]
)
def test_lies_under_encryption(scheme, name, the_error):
    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, LIES[name]), scheme)
    assert str(caught.value) == str(the_error)


@pytest.mark.parametrize(
    "scheme", [Paillier(512, True), OkamotoUchiyama(512, True)], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("bad", [0, "modulus", "largest"])
def test_numbers_that_are_no_ciphertexts(scheme, bad, the_error):
    def lie(answer, opening):
        key, rows = sums_of(answer, opening)
        value = {"modulus": key.modulus.words, "largest": np.uint64(2**64 - 1)}.get(bad, np.uint64(0))
        rows = rows.copy()
        rows[-1] = value
        return {"sums": key.to_bytes(rows)}

    with pytest.raises(ProtocolError) as caught:
        fit_with(Liar(SplitStatistics, lie), scheme)
    assert str(caught.value) == str(the_error)


def test_a_wrong_count_of_the_chosen_candidate_is_found():
    """Counts one too high move g by the offset: gains out of nowhere, which the assignment belies."""

    def lie(answer, opening):
        return {"counts": answer.counts + (answer.counts < len(X) - 1)}

    with pytest.raises(ProtocolError):
        fit_with(Liar(SplitStatistics, lie))


COLUMNS = {
    "no columns": lambda a, o: {"n_bins": a.n_bins[:0], "counts": a.counts[:0]},
    "bins without a column": lambda a, o: {"n_bins": a.n_bins[:-1]},
    "negative bins": lambda a, o: {"n_bins": -a.n_bins},
    "more bins than max_bin allows": lambda a, o: {
        "n_bins": np.array([len(a.counts) - 1], dtype=np.int32),
        "counts": np.where(np.arange(len(a.counts)) == 0, len(X), 0).astype(np.int32),
    },
    "rows too few": lambda a, o: {"counts": a.counts - (a.counts > 0)},
    "negative rows": lambda a, o: {"counts": -a.counts},
    "rows of another bin": lambda a, o: {"counts": np.append(a.counts[1:], a.counts[:1])},
}


@pytest.mark.parametrize("lie", COLUMNS.values(), ids=COLUMNS)
def test_lies_about_columns(lie):
    with pytest.raises(ProtocolError, match="'party 0'"):
        fit_with(Liar(TrainingOpened, lie))

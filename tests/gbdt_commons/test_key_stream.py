"""The ChaCha20 key stream: its words, its change of keys, threads and forks."""

import os
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import cryptography
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from hypothesis import given
from hypothesis import strategies as st

from gbdt_commons import key_stream
from gbdt_commons.key_stream import KEY_BYTES, KeyStream, this_process

KEY = bytes(range(32))
MAX_BYTES = 2**38
"""64 bytes for each value of a 32-bit block counter."""


def chacha20(key, n_bytes, first_block=0):
    nonce = first_block.to_bytes(4, "little") + bytes(12)
    return Cipher(algorithms.ChaCha20(key, nonce), mode=None).encryptor().update(bytes(n_bytes))


def small_limit(words):
    return mock.patch.object(key_stream, "MAX_WORDS", words)


def forked(work):
    """What `work` returns in a forked child, as bytes."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, work())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def test_words_are_those_of_chacha20():
    stream = KeyStream(KEY)
    words = np.concatenate([stream.words(n) for n in (3, 0, 8, 5)])
    assert words.dtype == np.uint64
    assert words.astype("<u8").tobytes() == chacha20(KEY, 8 * 16)


def test_keys_come_from_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr("os.urandom", lambda n: asked.append(n) or KEY)
    assert KeyStream().words(2).astype("<u8").tobytes() == chacha20(KEY, 16)
    assert asked == [32]


@given(st.integers(1, 40), st.lists(st.integers(0, 100), max_size=8))
def test_a_key_gives_so_many_words_and_then_the_next_key(limit, counts):
    with small_limit(limit):
        stream = KeyStream(KEY)
        words = [stream.words(n) for n in counts]
    assert [len(w) for w in words] == counts
    expected, key = b"", KEY
    while len(expected) < 8 * sum(counts):
        own = chacha20(key, 8 * limit + KEY_BYTES)
        expected, key = expected + own[:-KEY_BYTES], own[-KEY_BYTES:]
    drawn = np.concatenate([*words, np.empty(0, dtype=np.uint64)])
    assert drawn.astype("<u8").tobytes() == expected[: 8 * sum(counts)]


def test_the_limit_is_where_the_block_counter_ends():
    assert 8 * key_stream.MAX_WORDS + KEY_BYTES == MAX_BYTES
    last = MAX_BYTES // 64 - 1
    assert len(chacha20(KEY, 64, last)) == 64


@pytest.mark.skipif(
    int(cryptography.__version__.split(".")[0]) < 49, reason="goes on counting in the nonce without a word"
)
def test_the_library_refuses_to_go_beyond_the_limit():
    with pytest.raises(ValueError, match="counter"):
        chacha20(KEY, 65, MAX_BYTES // 64 - 1)


def test_threads_share_a_stream_and_no_word():
    with small_limit(100):
        stream = KeyStream(KEY)
        with ThreadPoolExecutor(4) as pool:
            drawn = np.concatenate(list(pool.map(lambda _: stream.words(7), range(200))))
        again = KeyStream(KEY).words(1400)
    np.testing.assert_array_equal(np.sort(drawn), np.sort(again))
    assert len(np.unique(drawn)) == 1400


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_is_refused_even_while_a_thread_of_the_parent_draws():
    stream = KeyStream()

    def refused():
        assert stream.is_forked
        try:
            return stream.words(1).tobytes()
        except RuntimeError as error:
            return str(error).encode()

    with stream.lock:
        assert b"forked process" in forked(refused)
    assert not stream.is_forked
    assert len(stream.words(1)) == 1


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_is_another_process_even_with_the_number_of_its_parent(monkeypatch):
    here = this_process()
    assert here == this_process()
    monkeypatch.setattr("os.getpid", lambda: here[0])
    assert forked(lambda: b"same" if this_process() == here else b"other") == b"other"


def test_nothing_of_the_key_is_shown():
    assert str(list(KEY)) not in repr(vars(KeyStream(KEY)))
    assert "key" not in vars(KeyStream(KEY))

"""Messages of vertical training, as bytes."""

import struct
import tracemalloc

import numpy as np
import pytest

from gbdt_parties import messages, protocol
from gbdt_parties.errors import ProtocolError
from xgb_fed.vertical.protocol.messages import Gradients, Routed, SplitStatistics, splits_at_once


@pytest.mark.parametrize("count", [1 << 30, 1 << 61, (1 << 64) - 1])
@pytest.mark.parametrize("tag", ["B", "c"])
def test_a_length_that_is_not_there_takes_no_memory(count, tag):
    cls = Routed if tag == "B" else SplitStatistics
    header = struct.pack("<4sHH16sQ", b"VBMS", protocol.VERSION, cls.kind, bytes(16), 0)
    fields = b"" if tag == "B" else b"I" + struct.pack("<Q", 0)
    tracemalloc.start()
    with pytest.raises(ProtocolError, match=cls.__name__):
        messages.read(header + fields + tag.encode() + struct.pack("<Q", count) + b"x" * 100)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000


def test_ciphertext_bytes_are_counted():
    empty = np.empty(0, dtype=np.int32)
    assert SplitStatistics(empty, b"12345").ciphertext_bytes == 5
    assert Gradients(0, 0, b"123").ciphertext_bytes == 3
    assert messages.Refusal("no", 0).ciphertext_bytes == 0


def test_an_answer_holds_the_sides_of_so_many_splits_that_it_has_a_mebibyte():
    rows = (0, 1, 8, 9, 8 << 20, (8 << 20) + 1)
    assert [splits_at_once(n) for n in rows] == [1 << 20, 1 << 20, 1 << 20, 1 << 19, 1, 1]

"""Damage to bytes, by a seeded generator."""

import numpy as np


def mutated(data, random):
    """The same bytes with a few of them changed, cut, doubled, or a number made large."""
    data = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        where = int(random.integers(0, len(data) + 1)) if len(data) else 0
        kind = random.integers(0, 6)
        if kind == 0 and where < len(data):
            data[where] ^= int(random.integers(1, 256))
        elif kind == 1:
            del data[where:]
        elif kind == 2:
            data[where:where] = random.bytes(int(random.integers(1, 20)))
        elif kind == 3:
            data[where : where + 8] = int(random.choice(_EXTREMES)).to_bytes(8, "little", signed=True)
        elif kind == 4:
            del data[where : where + int(random.integers(1, 20))]
        else:
            data += data[where : where + 30]
    return bytes(data)


_EXTREMES = np.array([-1, 0, 1, 2**31, 2**62, -(2**63), 2**63 - 1], dtype=np.int64)

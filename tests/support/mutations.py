"""Damaged and forged files: bytes that are flipped, cut or moved, and JSON with values of other kinds."""

import copy
import json

VALUES = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, -(10**30), 0.5, -0.0, 1e308, -1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "é\ud800", "0", "-1", "nan", "\x00", "a" * 5000),
    *([], [[]], [0], [None], [-1, 2**70], {}, {"x": 1}, {"": []}, {"0": {}}),
]


def nested(depth=20_000):
    """JSON text of lists within lists, deeper than a parser can follow."""
    return "[" * depth + "]" * depth


def places(content, path=()):
    """Where a value could stand in a JSON document, as tuples of keys."""
    yield path
    if isinstance(content, dict):
        for key, value in content.items():
            yield from places(value, (*path, key))
    elif isinstance(content, list):
        for i, value in enumerate(content[:4]):
            yield from places(value, (*path, i))


def replaced(content, path, value):
    """The document with another value in a place."""
    if not path:
        return value
    content = copy.copy(content)
    content[path[0]] = replaced(content[path[0]], path[1:], value)
    return content


def removed(content, path):
    """The document without a place."""
    if len(path) == 1:
        content = copy.copy(content)
        del content[path[0]]
        return content
    return replaced(content, path[:1], removed(content[path[0]], path[1:]))


def mutated_json(content, rng, count):
    """So many forgeries of a JSON document, as text: each differs in one place, or has two swapped."""
    everywhere = list(places(content))
    for _ in range(count):
        path = everywhere[rng.integers(len(everywhere))]
        kind = rng.integers(8)
        if kind == 0 and path:
            yield json.dumps(removed(content, path))
        elif kind == 1 and path:
            other = everywhere[rng.integers(len(everywhere))]
            if path[: len(other)] != other and other[: len(path)] != path:
                first, second = (_at(content, place) for place in (path, other))
                yield json.dumps(replaced(replaced(content, path, second), other, first))
        elif kind == 2:
            mark = "\uffff mark"
            yield json.dumps(replaced(content, path, mark)).replace(json.dumps(mark), nested())
        else:
            yield json.dumps(replaced(content, path, VALUES[rng.integers(len(VALUES))]))


def _at(content, path):
    for key in path:
        content = content[key]
    return content


def mutated_bytes(data, rng, count):
    """So many damaged copies of a file."""
    for _ in range(count):
        damaged = bytearray(data)
        kind, at = rng.integers(6), int(rng.integers(max(1, len(data))))
        if kind == 0:
            damaged[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del damaged[at:]
        elif kind == 2:
            del damaged[at : at + int(rng.integers(1, 40))]
        elif kind == 3:
            damaged[at:at] = bytes(rng.integers(0, 256, int(rng.integers(1, 9)), dtype="uint8"))
        elif kind == 4:
            damaged[at : at + 8] = b"\xff" * len(damaged[at : at + 8])
        else:
            other = int(rng.integers(len(data)))
            damaged[at : at + 16], damaged[other : other + 16] = data[other : other + 16], data[at : at + 16]
        yield bytes(damaged)

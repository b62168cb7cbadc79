"""The wire format: whatever the bytes, a message or a `ProtocolError`."""

import contextlib
import re
import struct
import tracemalloc
from concurrent.futures import Future
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_parties import messages, protocol
from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Parts

ROOT = Path(__file__).parents[2]
PACKAGES = {"lgb_dp": ROOT, "xgb_fed": ROOT, "gbdt_parties": ROOT / "plugins"}
for package, above in PACKAGES.items():
    for path in sorted((above / package).rglob("*.py")):
        if re.search(r"^class \w+\(.*, kind=\d+\):$", path.read_text(), flags=re.MULTILINE):
            import_module(".".join(path.relative_to(above).with_suffix("").parts))

DTYPES = {"B": np.uint8, "I": np.int32, "L": np.int64, "F": np.float32, "D": np.float64}


def values(tag, *ends):
    if tag == "i":
        return st.integers(*ends)
    if tag == "s":
        return st.text(max_size=20)
    if tag in "bcv":
        return st.binary(max_size=30)
    dtype = np.dtype(DTYPES[tag])
    size = dtype.itemsize
    whole = st.binary(max_size=40).map(lambda data: data[: len(data) // size * size])
    return whole.map(lambda data: np.frombuffer(data, dtype=dtype))


@st.composite
def any_message(draw):
    cls = draw(st.sampled_from(sorted(messages.KINDS.values(), key=lambda kind: kind.kind)))
    return cls(**{name: draw(values(*how)) for name, how in messages.declared(cls.kind).items()})


SESSIONS = st.binary(min_size=16, max_size=16)
NUMBERS = st.integers(0, (1 << 64) - 1)


def contents(message):
    """Values as bytes: NaN equals itself there."""
    return [
        value.tobytes() if isinstance(value, np.ndarray) else value
        for value in (getattr(message, name) for name in messages.tags(type(message)))
    ]


def same(envelope, session, number, message):
    got = envelope.message
    return (
        (envelope.session, envelope.sequence, type(got)) == (session, number, type(message))
        and contents(got) == contents(message)
        and all(
            getattr(got, name).dtype == DTYPES[tag]
            for name, tag in messages.tags(type(got)).items()
            if tag in DTYPES
        )
    )


@given(SESSIONS, NUMBERS, any_message())
@settings(deadline=None, max_examples=200)
def test_what_is_written_is_read(session, number, message):
    assert same(messages.read(messages.write(session, number, message)), session, number, message)


def test_long_octets_are_a_view_of_the_message():
    from lgb_dp.vertical.task import Flights

    written = messages.write(bytes(16), 0, Flights(b"flights", 0))
    content = messages.read(written).message.content
    assert isinstance(content, memoryview)
    assert content.obj is written
    assert content == b"flights"


def all_below(cls):
    """Classes that derive from this one, directly or not."""
    return {below for one in cls.__subclasses__() for below in (one, *all_below(one))}


def test_every_kind_has_its_number():
    """Those of all packages: the fuzzing above is of all of them."""
    classes = all_below(messages.Message)
    assert set(messages.KINDS.values()) == classes
    assert len(messages.KINDS) == len(classes) > 80
    assert all(cls.kind == number for number, cls in messages.KINDS.items())
    with pytest.raises(TypeError, match="both of kind"):
        type("Another", (messages.Message,), {}, kind=messages.Done.kind)


@given(any_message(), st.data())
@settings(deadline=None, max_examples=400)
def test_altered_bytes(message, data):
    """Cut, extended or changed: a `ProtocolError`, or another message that is whole in itself."""
    original = messages.write(b"s" * 16, 3, message)
    how = data.draw(st.sampled_from(["cut", "extend", "change", "insert"]))
    at = data.draw(st.integers(0, len(original) - 1))
    if how == "cut":
        altered = original[:at]
    elif how == "extend":
        altered = original + data.draw(st.binary(min_size=1, max_size=40))
    elif how == "insert":
        altered = original[:at] + data.draw(st.binary(min_size=1, max_size=9)) + original[at:]
    else:
        altered = original[:at] + data.draw(st.binary(min_size=1, max_size=9)) + original[at + 1 :]
    try:
        envelope = messages.read(altered)
    except ProtocolError:
        return
    assert how not in ("cut", "extend")
    assert messages.write(envelope.session, envelope.sequence, envelope.message) == altered


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=200)
def test_arbitrary_bytes(data):
    with pytest.raises(ProtocolError):
        messages.read(data)
    header = struct.pack(
        "<4sHH16sQ",
        b"VBMS",
        protocol.VERSION,
        sorted(messages.KINDS)[len(data) % len(messages.KINDS)],
        bytes(16),
        0,
    )
    with contextlib.suppress(ProtocolError):
        messages.read(header + data)


def test_long_texts_are_refused_before_they_take_memory():
    """Before, a request of 63 MiB took six times that, twice over."""
    message = messages.Refusal("x" * messages.MAX_TEXT_BYTES, 0)
    assert messages.read(messages.write(bytes(16), 0, message)).message.reason == message.reason
    longer = messages.write(bytes(16), 0, messages.Refusal("x" * messages.MAX_TEXT_BYTES + "\U0001f600", 0))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="malformed"):
            messages.read(longer)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_other_versions_and_kinds():
    data = bytearray(messages.write(bytes(16), 0, messages.Done()))
    for at, words in [(0, "not a veilboost message"), (4, "version"), (6, "kind")]:
        altered = bytearray(data)
        altered[at] ^= 0x40
        with pytest.raises(ProtocolError, match=words):
            messages.read(bytes(altered))


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 50))
@settings(deadline=None)
def test_flags(flags, count):
    bits = messages.to_bits(np.array(flags, dtype=bool))
    assert messages.from_bits(bits, len(flags)).tolist() == flags
    whole = -(-len(flags) // 8) == -(-count // 8)
    if whole and not any(flags[count:]):
        assert messages.from_bits(bits, count).tolist() == [*flags, *[False] * 8][:count]
    else:
        with pytest.raises(ProtocolError):
            messages.from_bits(bits, count)


def test_parts_are_given_in_order_and_joined():
    made = Future()
    made.set_result(b"cd")
    parts = Parts(7, [b"ab", made, Parts(3, [b"e", b"", b"fg"])])
    assert len(parts) == 7
    assert list(parts) == [b"ab", b"cd", b"e", b"", b"fg"]
    assert bytes(parts) == bytes(parts) == b"abcdefg"


def test_an_error_in_making_a_part_is_raised_where_it_is_taken():
    broken = Future()
    broken.set_exception(ZeroDivisionError("made up"))
    parts = iter(Parts(3, [b"a", broken]))
    assert next(parts) == b"a"
    with pytest.raises(ZeroDivisionError, match="made up"):
        next(parts)

"""The prime-order group: its points, multiples and hashes, beside the curve in plain integers."""

import hashlib
import subprocess
import sys
from threading import Thread
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edwards
from gbdt_parties import curve_group
from gbdt_parties.curve_group import (
    POINT_BYTES,
    PointError,
    add,
    check_points,
    generator_multiples,
    hash_to_group,
    length_prefixed,
    multiply,
    multiply_each,
    random_scalar,
    scalar_of,
    subtract,
)
from gbdt_parties.errors import ProtocolError
from quick_group import quick_group

pytest.importorskip("nacl")

SCALARS = st.integers(1, 2**252 - 1).map(lambda r: (8 * r).to_bytes(32, "little"))
MULTIPLES = st.integers(1, edwards.L - 1)
TEXTS = st.binary(max_size=40)
few = settings(max_examples=8, deadline=None)


def number(scalar):
    return int.from_bytes(scalar, "little")


def split(points):
    return [points[k : k + POINT_BYTES] for k in range(0, len(points), POINT_BYTES)]


@few
@given(SCALARS, st.lists(MULTIPLES, min_size=1, max_size=3))
def test_multiples_are_those_of_the_curve(scalar, logarithms):
    points = [edwards.times(n, edwards.GENERATOR) for n in logarithms]
    expected = [edwards.encoded(edwards.times(number(scalar), point)) for point in points]
    assert split(multiply(scalar, b"".join(map(edwards.encoded, points)))) == expected


@few
@given(SCALARS, MULTIPLES)
def test_secret_scalars_kill_torsion(scalar, n):
    """Of the scalars that are used, the multiple of P + T is that of P: there is nothing to learn from T."""
    point = edwards.times(n, edwards.GENERATOR)
    expected = multiply(scalar, edwards.encoded(point))
    for torsion in edwards.TORSION:
        mixed = edwards.times(number(scalar), edwards.add(point, torsion))
        assert edwards.encoded(mixed) == expected


def test_scalars_are_eight_times_a_random_number(monkeypatch):
    scalars = {number(random_scalar()) for _ in range(200)}
    assert len(scalars) == 200
    assert all(n % 8 == 0 and 0 < n // 8 < 2**252 for n in scalars)
    assert max(scalars) > 2**254
    drawn = [bytes(32), bytes([15]) + bytes(31), b"\xff" * 32]
    monkeypatch.setattr("os.urandom", lambda n: drawn.pop(0))
    assert number(random_scalar()) == 8 * (2**252 - 1)


@few
@given(st.lists(st.tuples(SCALARS, MULTIPLES, MULTIPLES), min_size=2, max_size=3))
def test_sums_differences_and_multiples_of_each_are_those_of_the_curve(cases):
    scalars, ones, others = zip(*cases, strict=True)
    points = [edwards.times(n, edwards.GENERATOR) for n in ones]
    minus = [edwards.times(edwards.L - n, edwards.GENERATOR) for n in others]
    a, b = (b"".join(map(edwards.encoded, some)) for some in (points, minus))
    sums = [edwards.encoded(edwards.add(*pair)) for pair in zip(points, minus, strict=True)]
    assert split(add(a, b)) == sums
    negatives = [edwards.times(n, edwards.GENERATOR) for n in others]
    assert split(subtract(a, b"".join(map(edwards.encoded, negatives)))) == sums
    multiples = [edwards.times(number(s), p) for s, p in zip(scalars, points, strict=True)]
    assert split(multiply_each(scalars, a)) == list(map(edwards.encoded, multiples))
    of_generator = [edwards.encoded(edwards.times(number(s), edwards.GENERATOR)) for s in scalars]
    assert split(generator_multiples(scalars)) == of_generator
    assert split(multiply_each(scalars, edwards.encoded(edwards.GENERATOR))) == of_generator


def test_the_neutral_element_and_points_off_the_group_have_no_multiples():
    good = edwards.encoded(edwards.GENERATOR)
    neutral = subtract(good, good)
    with pytest.raises(PointError, match=r"point 1 of 1.*prime-order"):
        multiply_each([random_scalar()], neutral)
    with pytest.raises(PointError, match="point 2 of 2"):
        multiply_each([random_scalar(), random_scalar()], good + neutral)


def test_scalars_of_bytes_are_their_upper_bits_times_eight():
    assert number(scalar_of(b"\xff" * 32)) == 8 * (2**252 - 1)
    assert number(scalar_of(bytes([31]) + bytes(31))) == 8
    assert not any(scalar_of(bytes([15]) + bytes(31)))


def refusals(point):
    for refuses in (check_points, lambda p: multiply((8 * 5).to_bytes(32, "little"), p)):
        with pytest.raises(PointError, match=r"point 1 of 1.*prime-order"):
            refuses(point)
    good = edwards.encoded(edwards.GENERATOR)
    with pytest.raises(PointError, match=r"point 2 of 3"):
        check_points(good + point + good)
    with pytest.raises(PointError, match=r"point 2 of 3"):
        multiply(random_scalar(), good + point + good)


@pytest.mark.parametrize("k", range(8))
def test_points_of_small_and_of_mixed_order_are_refused(k):
    """Of all eight small components; only that of order 2 passes the check of CVE-2025-69277."""
    refusals(edwards.encoded(edwards.TORSION[k]))
    for n in (1, 12345, edwards.L - 1) if k else ():
        refusals(edwards.encoded(edwards.add(edwards.times(n, edwards.GENERATOR), edwards.TORSION[k])))


def test_points_in_another_than_their_only_form_are_refused():
    assert any(edwards.with_y(y) for y in range(19))
    for y in range(19):
        for sign in (0, 1):
            refusals((y + edwards.P | sign << 255).to_bytes(32, "little"))
    # The neutral element with the sign of -0.
    refusals((1 | 1 << 255).to_bytes(32, "little"))


@few
@given(st.binary(min_size=32, max_size=32))
def test_any_bytes_are_a_point_of_the_group_or_refused(octets):
    point = edwards.decoded(octets)
    is_of_group = point and edwards.encoded(point) == octets
    is_of_group = is_of_group and edwards.times(edwards.L, point) == edwards.NEUTRAL != point
    if is_of_group:
        check_points(octets)
    else:
        refusals(octets)


def test_parts_of_points_are_refused():
    good = edwards.encoded(edwards.GENERATOR)
    for octets in (good[:-1], good + b"\0"):
        with pytest.raises(PointError, match="points of 32 bytes"):
            check_points(octets)
        with pytest.raises(PointError, match="points of 32 bytes"):
            multiply(random_scalar(), octets)
    assert issubclass(PointError, ProtocolError)
    assert multiply(random_scalar(), b"") == b""


@few
@given(SCALARS, SCALARS, st.lists(TEXTS, min_size=1, max_size=4))
def test_doubly_masked_values_commute(a, b, texts):
    points = hash_to_group([b"test"], texts)
    assert multiply(a, multiply(b, points)) == multiply(b, multiply(a, points))


@few
@given(SCALARS, st.lists(TEXTS, min_size=2, max_size=6, unique=True))
def test_different_texts_are_different_points_of_the_group_and_stay_so(scalar, texts):
    points = hash_to_group([b"test"], texts)
    check_points(points)
    assert len(set(split(points))) == len(texts)
    assert len(set(split(multiply(scalar, points)))) == len(texts)


def test_a_hash_is_the_sum_of_two_maps():
    bindings = pytest.importorskip("nacl.bindings")
    digest = hashlib.sha512(bytes([1]) + bytes(7) + b"d" + bytes([2]) + bytes(7) + b"id").digest()
    halves = [bindings.crypto_core_ed25519_from_uniform(half) for half in (digest[:32], digest[32:])]
    total = edwards.add(*map(edwards.decoded, halves))
    assert hash_to_group([b"d"], [b"id"]) == edwards.encoded(total)


@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=4))
def test_different_inputs_are_different_texts(one, other):
    assert (length_prefixed(one) == length_prefixed(other)) == (one == other)


def test_domains_and_inputs_do_not_run_into_each_other():
    found = {
        hash_to_group(domain, [text])
        for domain, text in (([b"a"], b"bc"), ([b"ab"], b"c"), ([b"a", b"b"], b"c"), ([], b"abc"))
    }
    assert len(found) == 4


def test_an_old_libsodium_is_not_used(monkeypatch):
    """PyNaCl 1.5 takes the generator plus the point of order 2 for a point of the group."""
    from nacl import bindings

    mixed = edwards.encoded(edwards.add(edwards.GENERATOR, edwards.TORSION[4]))
    assert mixed == curve_group.MIXED_ORDER
    checks = curve_group.sodium.__wrapped__
    assert checks() is bindings
    monkeypatch.setattr(bindings, "crypto_core_ed25519_is_valid_point", lambda point: True)
    with pytest.raises(ImportError, match=r"CVE-2025-69277.*pynacl>=1\.6\.2"):
        checks()
    monkeypatch.undo()
    monkeypatch.setattr(bindings, "has_crypto_core_ed25519", False)
    with pytest.raises(ImportError, match=r"pynacl>=1\.6\.2"):
        checks()


def test_work_on_many_points_is_that_on_each(monkeypatch):
    """Whatever the threads, each point is at its place; and threads of several callers mix nothing up."""
    texts = [b"%d" % k for k in range(300)]
    points = hash_to_group([b"test"], texts)
    assert split(points)[:5] == [hash_to_group([b"test"], [text]) for text in texts[:5]]
    scalars = [random_scalar() for _ in range(3)]
    expected = [multiply(scalar, points) for scalar in scalars]
    found = SimpleNamespace(points={})
    workers = [
        Thread(target=lambda k=k: found.points.update({k: multiply(scalars[k], points)})) for k in range(3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [found.points[k] for k in range(3)] == expected


def test_pynacl_is_loaded_when_a_point_is_first_needed():
    code = "import sys, gbdt_parties.identity.alignment; print('nacl' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_group_of_quick_tests_is_one_of_the_same_order():
    """What is computed in it agrees as on the curve, and is refused for the same lengths and elements."""
    with quick_group():
        a, b = (random_scalar() for _ in range(2))
        point = hash_to_group([b"domain"], [b"text"])
        assert len(point) == POINT_BYTES
        assert multiply(a, multiply(b, point)) == multiply(b, multiply(a, point))
        assert multiply(a, generator_multiples([b])) == multiply(b, generator_multiples([a]))
        other = hash_to_group([b"domain"], [b"other text"])
        assert subtract(add(point, other), other) == point != other
        assert multiply(a, add(point, other)) == add(multiply(a, point), multiply(a, other))
        for wrong in (bytes(POINT_BYTES), b"\xff" * POINT_BYTES):
            with pytest.raises(PointError, match="point 2 of 2"):
                multiply(a, point + wrong)
            with pytest.raises(PointError, match="point 2 of 2"):
                check_points(point + wrong)
        with pytest.raises(PointError):
            multiply(a, subtract(point, point))
    assert hash_to_group([b"domain"], [b"text"]) != point

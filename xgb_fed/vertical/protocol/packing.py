"""Packing of several small numbers into one plaintext (SecureBoost+, §3.1.2, §3.1.3 and §3.3.2).

A gradient g and a hessian h become the integers ``g' = round(g·2^r) + offset`` and
``h' = round(h·2^r)``, none negative, and one plaintext ``gh = g'·2^b_h + h'``.  The fields
are wide enough for the sum over all rows, by public bounds alone, so sums of
plaintexts never carry from one field into the next.

The offset adds up too: a sum over k rows carries k offsets. The sender of a sum sends k with it, in clear (a
packed count would tell the receiver the same); it is listed in the traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite, ldexp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.limbs import n_words
from gbdt_parties.errors import ProtocolError
from xgb_fed.errors import InvalidArgumentError, PackingError, PlaintextRangeError

# Large integers are pairs of 64-bit numbers, so that numpy adds them up exactly: high·2^27 + low, normalised
# if 0 <= low < 2^27, as one pair only of a value is.  Arrays have the pair as their axis of length 2.
HALF_BITS = 27
HALF_MASK = np.int64((1 << HALF_BITS) - 1)


def split_halves(values: NDArray[np.int64]) -> NDArray[np.int32]:
    """Halves of integers below 2^58, along a new first axis; float64 holds sums of 2^26 of them exactly."""
    return np.stack([values >> HALF_BITS, values & HALF_MASK]).astype(np.int32)


def joined(halves: NDArray[np.int64]) -> NDArray[np.float64]:
    """The nearest float64; both terms are exact below 2^53, so their float64 sum is the nearest one."""
    high, low = halves.astype(np.float64)
    return np.asarray(np.ldexp(high, HALF_BITS) + low)


def normalised(halves: NDArray[np.int64], axis: int = 1) -> NDArray[np.int64]:
    """The same values with low halves in [0, 2^27); by default of exact sums, shape (2, 2, ...)."""
    high, low = np.moveaxis(halves, axis, 0)
    return np.stack([high + (low >> HALF_BITS), low & HALF_MASK], axis=axis)


def times(number: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Halves of a number of at most 63 bits, not negative, times counts below 2^26; not normalised."""
    return np.stack([counts * (number >> HALF_BITS), counts * (number & int(HALF_MASK))])


def at_most(a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether normalised values are at most others; the halves are the first axis."""
    return np.asarray((a[0] < b[0]) | ((a[0] == b[0]) & (a[1] <= b[1])))


MAX_FIELD_BITS = 63
"""Bits of one row's g' or h' at most: they are made in 64-bit words."""


@dataclass(frozen=True)
class GHPacking:
    """Where gradient and hessian lie in a plaintext, derived from public numbers only.

    A sum has `n_rows` rows at most.  The public bounds of the gradient are, for logistic loss, −1 and 1, that
    of the hessian, which is not negative, is 1/4.  `precision` is r, bits after the binary point.
    """

    n_rows: int
    g_min: float = -1.0
    g_max: float = 1.0
    h_max: float = 1.0
    precision: int = 53

    def __post_init__(self) -> None:
        """Check the bounds, and that one row's fields fit a word."""
        if self.n_rows < 1:
            raise InvalidArgumentError(f"n_rows={self.n_rows} must be at least 1")
        if not (isfinite(self.g_min) and isfinite(self.g_max) and self.g_min <= self.g_max):
            raise InvalidArgumentError(
                f"bounds of g must be finite and ordered, not ({self.g_min}, {self.g_max})"
            )
        if not (isfinite(self.h_max) and self.h_max > 0):
            raise InvalidArgumentError(f"h_max={self.h_max} must be positive and finite")
        if self.precision < 0:
            raise InvalidArgumentError(f"precision={self.precision} must not be negative")
        field = max(self._g_top, self._h_top).bit_length()
        if field > MAX_FIELD_BITS:
            raise PackingError(
                f"precision={self.precision} with these bounds needs {field} bits for one row, "
                f"{MAX_FIELD_BITS} at most; a precision of {self.precision - field + MAX_FIELD_BITS} fits"
            )

    def _fixed_point(self, bound: float) -> int:
        return round(ldexp(bound, self.precision))

    @cached_property
    def offset(self) -> int:
        """Offset that makes every g' non-negative: −g_min, as an integer."""
        return max(0, -self._fixed_point(self.g_min))

    @cached_property
    def _g_top(self) -> int:
        return max(0, self._fixed_point(self.g_max)) + self.offset

    @cached_property
    def _h_top(self) -> int:
        return self._fixed_point(self.h_max)

    @cached_property
    def g_bits(self) -> int:
        """b_g: bits of the largest sum of g'."""
        return (self.n_rows * self._g_top).bit_length()

    @cached_property
    def h_bits(self) -> int:
        """b_h: bits of the largest sum of h'."""
        return (self.n_rows * self._h_top).bit_length()

    @cached_property
    def bits(self) -> int:
        """b_gh: bits of the largest sum of plaintexts."""
        return self.g_bits + self.h_bits

    def per_ciphertext(self, plaintext_limit: int) -> int:
        """η: sums, or classes, that one plaintext holds; raises `PackingError` if it holds none."""
        space = plaintext_limit.bit_length() - 1
        if space < self.bits:
            raise PackingError(
                f"sums over {self.n_rows} rows need {self.bits} bits; the key's plaintexts have {space}"
            )
        return space // self.bits

    def put(self, g: NDArray[Any], h: NDArray[Any], rows: NDArray[np.uint64], shift: int) -> None:
        """Write one pair's fields per row, `shift` bits up; `PlaintextRangeError` beyond the public bound."""
        _put_field(rows, self._integers(g, "g") + np.uint64(self.offset), shift + self.h_bits)
        _put_field(rows, self._integers(h, "h"), shift)

    def fixed_point(self, g: NDArray[Any], h: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The integers, without offset, that `put` writes."""
        return self._integers(g, "g").view(np.int64), self._integers(h, "h").view(np.int64)

    def _integers(self, values: NDArray[Any], name: str) -> NDArray[np.uint64]:
        """Fixed-point integers, negative ones modulo 2⁶⁴."""
        low, high = (-self.offset, self._g_top - self.offset) if name == "g" else (0, self._h_top)
        scaled = np.rint(np.ldexp(np.asarray(values, dtype=np.float64), self.precision))
        if not ((scaled >= low) & (scaled <= high)).all():
            raise PlaintextRangeError(f"a value of {name} is not a number, or beyond the public bound")
        return scaled.astype(np.int64).view(np.uint64)

    def are_possible(self, sums: NDArray[np.int64], counts: NDArray[np.int64]) -> bool:
        """Whether g and h can be sums over so many rows, `counts`, none of them negative.

        The sums, shape (2, 2, ...), are g without offset and h, each as high and low halves.
        """
        g = normalised(sums[0] + times(self.offset, counts), axis=0)
        h = normalised(sums[1], axis=0)
        most_g, most_h = (normalised(times(top, counts), axis=0) for top in (self._g_top, self._h_top))
        possible = (g[0] >= 0) & at_most(g, most_g) & (h[0] >= 0) & at_most(h, most_h)
        return bool(possible.all())


@dataclass(frozen=True)
class MultiClassPacking:
    """Gradients and hessians of all classes of a row, in as few plaintexts of a key as hold them.

    Algorithm 1 of the paper, with h scaled from h (the print says from g): classes in order, every one moves
    those before it up by b_gh bits.  Algorithm 2 reads them back, the last class from the lowest bits (the
    print keeps the order of popping, and takes g from the low end; it is ``g = gh >> b_h``).
    """

    gh: GHPacking
    n_classes: int
    plaintext_limit: int

    def __post_init__(self) -> None:
        """Check that a plaintext holds one class at least."""
        if self.n_classes < 1:
            raise InvalidArgumentError(f"n_classes={self.n_classes} must be at least 1")
        self.gh.per_ciphertext(self.plaintext_limit)

    @property
    def classes_per_ciphertext(self) -> int:
        """η_c."""
        return min(self.n_classes, self.gh.per_ciphertext(self.plaintext_limit))

    @property
    def groups(self) -> list[range]:
        """The classes in each plaintext of a row."""
        size = self.classes_per_ciphertext
        return [range(k, min(k + size, self.n_classes)) for k in range(0, self.n_classes, size)]

    def encode(self, g: NDArray[Any], h: NDArray[Any]) -> NDArray[np.uint64]:
        """Plaintexts, shape (n_groups, n_rows, words), of g and h of shape (n_rows, n_classes)."""
        g, h = np.asarray(g), np.asarray(h)
        if g.shape != (len(g), self.n_classes) or g.shape != h.shape:
            raise InvalidArgumentError(
                f"g and h have shapes {g.shape} and {h.shape} for {self.n_classes} classes"
            )
        width = n_words(self.gh.bits * self.classes_per_ciphertext)
        rows = np.zeros((len(self.groups), len(g), width), dtype=np.uint64)
        for plaintexts, classes in zip(rows, self.groups, strict=True):
            for k in classes:
                self.gh.put(g[:, k], h[:, k], plaintexts, self.gh.bits * (classes[-1] - k))
        return rows

    def are_possible(self, sums: NDArray[np.int64], counts: NDArray[np.int64]) -> bool:
        """Whether sums of every class, shape (2, 2, n_classes, ...), can be those of so many rows."""
        return all(self.gh.are_possible(sums[:, :, k], counts) for k in range(self.n_classes))


def _put_field(rows: NDArray[np.uint64], field: NDArray[np.uint64], shift: int) -> None:
    """Write a field of at most 63 bits, `shift` bits up, where rows are still 0."""
    word, bits = divmod(shift, 64)
    rows[:, word] |= field << np.uint64(bits)
    if bits and word + 1 < rows.shape[1]:
        rows[:, word + 1] |= field >> np.uint64(64 - bits)


def sums_from_plaintexts(
    packing: MultiClassPacking,
    plaintexts: Sequence[Sequence[int]],
    per_ciphertext: int,
    counts: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Exact sums from compressed plaintexts, without their offsets, over so many rows each, `counts`.

    The plaintexts are one sequence of decrypted integers, of `per_ciphertext` sums each, per group of
    classes. The result has sums of g and of h as high and low halves, normalised, shape (2, 2, n_classes, n).

    Raises `PlaintextRangeError` if the plaintexts do not hold so many sums, or a sum is not possible over its
    rows.
    """
    gh, n = packing.gh, len(counts)
    if n and not 0 <= counts.min() <= counts.max() <= gh.n_rows:
        raise PlaintextRangeError(f"a sum over {counts.max()} rows; at most {gh.n_rows} fit")
    bits, n_each = gh.bits * packing.classes_per_ciphertext, -(-n // per_ciphertext)
    sums = np.zeros((2, 2, packing.n_classes, n_each * per_ciphertext), dtype=np.int64)
    for values, classes in zip(plaintexts, packing.groups, strict=True):
        if len(values) != n_each:
            raise PlaintextRangeError("another number of plaintexts than the sums need")
        words = _words_of(values, bits * per_ciphertext)
        for k in range(per_ciphertext):
            shift, unused = bits * (per_ciphertext - 1 - k), bits - gh.bits * len(classes)
            for at in range(shift + bits - unused, shift + bits, HALF_BITS):
                if _get_field(words, at, min(HALF_BITS, shift + bits - at)).any():
                    raise PlaintextRangeError("a decrypted plaintext holds more classes than were packed")
            for c in classes:
                low = shift + gh.bits * (classes[-1] - c)
                for part, at, width in ((0, low + gh.h_bits, gh.g_bits), (1, low, gh.h_bits)):
                    n_low = min(HALF_BITS, width)
                    sums[part, 0, c, k::per_ciphertext] = _get_field(words, at + n_low, width - n_low)
                    sums[part, 1, c, k::per_ciphertext] = _get_field(words, at, n_low)
    if sums[..., n:].any():
        raise PlaintextRangeError("a decrypted plaintext holds more fields than were packed")
    sums = sums[..., :n]
    sums[0] -= times(gh.offset, counts)[:, None]
    sums = normalised(sums)
    if not packing.are_possible(sums, counts):
        raise PlaintextRangeError("a decrypted sum is outside its public range")
    return sums


def _words_of(values: Sequence[int], bits: int) -> NDArray[np.uint64]:
    """Integers as rows of 64-bit words, least significant first, with a word of zeros after the last one."""
    if any(value < 0 or value >> bits for value in values):
        raise PlaintextRangeError("a decrypted plaintext is longer than its fields")
    width = n_words(bits) + 1
    data = b"".join(value.to_bytes(8 * width, "little") for value in values)
    return np.frombuffer(data, dtype="<u8").astype(np.uint64, copy=False).reshape(len(values), width)


def _get_field(words: NDArray[np.uint64], shift: int, bits: int) -> NDArray[np.int64]:
    """A field of at most 63 bits of every row, `shift` bits up."""
    word, offset = divmod(shift, 64)
    if bits <= 0:
        return np.zeros(len(words), dtype=np.int64)
    field = words[:, word] >> np.uint64(offset)
    if offset:
        field = field | words[:, word + 1] << np.uint64(64 - offset)
    return np.asarray(field & np.uint64((1 << bits) - 1)).view(np.int64)


def packing_for(n_rows: int, n_classes: int, plaintext_limit: int) -> MultiClassPacking:
    """Make the layout of the scaled gradients in plaintexts; it depends on public numbers only."""
    return MultiClassPacking(GHPacking(n_rows, -1.0, 1.0, 1.0), n_classes, plaintext_limit)


def check_layout(field_bits: int, n_groups: int, n_rows: int, plaintext_limit: int) -> None:
    """Refuse a layout that `packing_for` gives for no number of classes.

    One packed sum, of all classes in a ciphertext, has `field_bits` bits, and a row has `n_groups`
    ciphertexts. Raises `ProtocolError` if the fields are not those of a whole number of classes, or if a row
    has several ciphertexts and the first has room for a further class.
    """
    one = GHPacking(max(n_rows, 1), -1.0, 1.0, 1.0).bits
    n_classes, rest = divmod(field_bits, one)
    most = (plaintext_limit.bit_length() - 1) // one
    if rest or not (1 <= n_classes <= most if n_groups == 1 else 1 <= n_classes == most):
        raise ProtocolError(
            f"field_bits={field_bits} with n_groups={n_groups} is not a layout of gradients: over {n_rows} "
            f"rows, a class has {one} bits, and the announced key has room for {most} classes, all used "
            "before there is a second group"
        )

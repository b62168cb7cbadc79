"""Arithmetic modulo an odd number on whole arrays: one row of 64-bit words per residue, in Montgomery form.

The residue x is stored as ``x·R mod n`` with ``R = 2^(52·⌈bits/52⌉)``, fully
reduced, so equal residues are equal bytes whichever path computed them: AVX-512
IFMA where numba compiles for it, 26-bit halves of limbs in any vector unit elsewhere or if the environment
variable ``VEILBOOST_PORTABLE`` is ``1``.  The path is chosen once.

Powers take secret exponents; run times and memory traces depend on them.  That
is fine where the holder of the exponents owns the machine, and only there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import ModuleType
from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues import montgomery, montgomery_ifma
from gbdt_kernels.residues.lanes import LANES, LIMB_BITS, has_ifma
from gbdt_kernels.residues.limbs import WORD_BITS, add_rows, from_rows, n_words, to_limbs, to_rows, widened
from gbdt_kernels.threads import blocks, run

PORTABLE_VARIABLE = "VEILBOOST_PORTABLE"
"""Environment variable that forces the portable path."""
Rows = NDArray[np.uint64]
_POWERS_AT_ONCE = 4096


@lru_cache(maxsize=1)
def arithmetic_path() -> str:
    """``"ifma"`` or ``"portable"``: what the kernels run on, chosen at the first call."""
    portable = os.environ.get(PORTABLE_VARIABLE, "0") not in ("", "0")
    return "ifma" if has_ifma() and not portable else "portable"


def path_kernels() -> ModuleType:
    """The module of kernels that the path has."""
    return montgomery_ifma if arithmetic_path() == "ifma" else montgomery


class Modulus:
    """An odd modulus, with what Montgomery arithmetic needs to know of it.

    Parameters
    ----------
    value : int
        Odd, at least 3.  It may be a secret: `repr` and errors do not show it.

    Attributes
    ----------
    n_limbs, width : int
        52-bit limbs of the modulus, and 64-bit words of a row.
    radix : int
        R, a power of two above the modulus.
    words, limbs : ndarray of uint64
        The modulus in words and in limbs.
    inverse : uint64
        ``-1 / n mod 2⁶⁴``.
    one, radix_squared : ndarray of uint64, shape (1, width)
        ``R mod n``, which stands for 1, and ``R² mod n``, which stands for R.
    """

    def __init__(self, value: int) -> None:
        if value < 3 or value % 2 == 0:
            raise ValueError("a modulus must be odd and at least 3")
        bits = value.bit_length()
        self.value = value
        self.n_limbs = -(-bits // LIMB_BITS)
        if self.n_limbs > montgomery_ifma.MOST_LIMBS:
            raise ValueError(
                f"a modulus has at most {LIMB_BITS * montgomery_ifma.MOST_LIMBS} bits, not {bits}"
            )
        self.width = n_words(bits)
        self.radix = 1 << (LIMB_BITS * self.n_limbs)
        self.words = to_rows([value], self.width)[0]
        self.limbs = to_limbs(value, self.n_limbs)
        self.inverse = np.uint64(-pow(value, -1, 1 << WORD_BITS) % (1 << WORD_BITS))
        self.one = to_rows([self.radix % value], self.width)
        self.radix_squared = to_rows([self.radix * self.radix % value], self.width)

    def __repr__(self) -> str:
        """Size only."""
        return f"Modulus({self.value.bit_length()} bits)"

    @property
    def constants(self) -> tuple[Any, ...]:
        """The arguments of every kernel."""
        return self.words, self.limbs, self.n_limbs, self.inverse

    @property
    def steps(self) -> int:
        """Elementary steps of a product, as `threads.blocks` counts them."""
        return self.n_limbs * self.n_limbs // 2 + 1

    def row(self, value: int) -> Rows:
        """The Montgomery form of one integer, as an array of one row."""
        return to_rows([value * self.radix % self.value], self.width)


def _over_rows(n_rows: int, steps: int, n_threads: int, work: Callable[[int, int], None]) -> None:
    """Call ``work(start, stop)`` for blocks of whole batches of rows."""
    parts = blocks(-(-n_rows // LANES), n_threads, LANES * steps)
    run(lambda _, start, stop: work(LANES * start, min(LANES * stop, n_rows)), parts)


def multiply(a: Rows, b: Rows, modulus: Modulus, n_threads: int = 0, out: Rows | None = None) -> Rows:
    """Products of rows; an operand of one row multiplies every row of the other.

    ``multiply(a, b)`` is ``a·b/R mod n``, the product in Montgomery form.  It is right also if one operand
    is not reduced but below R.

    Parameters
    ----------
    a, b : ndarray of uint64, shape (n_rows or 1, width)
    modulus : Modulus
    n_threads : int
        Threads at most; 0 means all available processors.
    out : ndarray of uint64, shape (n_rows, width), optional
        Where to write instead of to a new array; it may be `a` or `b`, unless that is one row for many.

    Returns
    -------
    ndarray of uint64, shape (n_rows, width)
    """
    a, b = _as_rows(a, modulus), _as_rows(b, modulus)
    if len(a) != len(b) and 1 not in (len(a), len(b)):
        raise ValueError(f"cannot multiply {len(a)} rows by {len(b)}")
    n_rows = 0 if 0 in (len(a), len(b)) else max(len(a), len(b))
    if out is None:
        out = np.empty((n_rows, modulus.width), dtype=np.uint64)
    elif out.shape != (n_rows, modulus.width) or out.dtype != np.uint64 or not out.flags.c_contiguous:
        raise ValueError(f"out must be C-ordered words of shape {(n_rows, modulus.width)}")
    a_step, b_step = int(len(a) > 1), int(len(b) > 1)
    products = path_kernels().products

    def work(start: int, stop: int) -> None:
        products(a, a_step, b, b_step, *modulus.constants, out, start, stop)

    _over_rows(n_rows, modulus.steps, n_threads, work)
    return out


def _as_rows(rows: Rows, modulus: Modulus) -> Rows:
    """C-ordered rows of the modulus's width: the kernels read memory unchecked."""
    rows = np.ascontiguousarray(rows, dtype=np.uint64)
    if rows.ndim != 2 or rows.shape[1] != modulus.width:
        raise ValueError(f"rows have shape (n, {modulus.width}) for {modulus!r}, not {rows.shape}")
    return rows


def encode(values: Iterable[Any], modulus: Modulus, n_threads: int = 0) -> Rows:
    """Integers in ``[0, 2^(64 width))`` and below R as residues in Montgomery form."""
    return multiply(to_rows(values, modulus.width), modulus.radix_squared, modulus, n_threads)


def decode(rows: Rows, modulus: Modulus, n_threads: int = 0) -> list[int]:
    """Residues in Montgomery form as integers in ``[0, n)``."""
    return from_rows(multiply(rows, to_rows([1], modulus.width), modulus, n_threads))


class Reduction:
    """Residues of wide integers, ``x·factor mod n`` in Montgomery form.

    x is cut in pieces of w words with ``2^(64 w) <= R``; piece k is multiplied by ``2^(64 w k)·R·factor``,
    which leaves it reduced and in Montgomery form.

    Parameters
    ----------
    wide : int
        Words of the wide rows.
    modulus : Modulus
    factor : int
        Invertible or not.
    """

    def __init__(self, wide: int, modulus: Modulus, factor: int = 1) -> None:
        self._modulus = modulus
        self._piece = min(modulus.width, LIMB_BITS * modulus.n_limbs // WORD_BITS)
        if self._piece == 0:
            raise ValueError(f"{modulus!r} is too small to reduce to")
        self._wide = wide
        scale = factor * modulus.radix % modulus.value
        self._constants = [modulus.row(scale << (WORD_BITS * at)) for at in range(0, wide, self._piece)]

    def __call__(self, rows: Rows, n_threads: int = 0) -> Rows:
        """Reduce rows of the wide width."""
        if rows.shape[1] != self._wide:
            raise ValueError(f"rows have {rows.shape[1]} words, not {self._wide}")
        total = np.zeros((len(rows), self._modulus.width), dtype=np.uint64)
        for k, constant in enumerate(self._constants):
            piece = widened(rows[:, k * self._piece : (k + 1) * self._piece], self._modulus.width)
            total = add_rows(total, multiply(piece, constant, self._modulus, n_threads), self._modulus.words)
        return total


def chain_products(
    source: Rows,
    order: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    modulus: Modulus,
    out: Rows | None = None,
    targets: NDArray[np.int64] | None = None,
    n_threads: int = 0,
) -> Rows:
    """Product of each chain of rows: chain c is ``source[order[starts[c]:starts[c + 1]]]``.

    A chain of k rows takes k − 1 products; an empty one gives 1.  The places of `order` are cut into equal
    spans, eight a thread (one for each lane), whatever the chains' lengths; a chain cut by that is
    multiplied together at the end.

    Parameters
    ----------
    source : ndarray of uint64, shape (n_rows, width)
    order : ndarray of int
        Row numbers, chain by chain.
    starts : ndarray of int64, shape (n_chains + 1,)
    modulus : Modulus
    out : ndarray of uint64, optional
        Where to write instead of to a new array.
    targets : ndarray of int64, shape (n_chains,), optional
        The row of `out` each chain goes to, no row twice; chain c goes to row c otherwise.
    n_threads : int
        Threads at most; 0 means all available processors.

    Returns
    -------
    ndarray of uint64, shape (n_chains, width), or `out`
    """
    source = _as_rows(source, modulus)
    check_rows("order", order, len(source))
    check_starts(starts, len(order))
    n_chains = len(starts) - 1
    if out is None:
        out = np.empty((n_chains, modulus.width), dtype=np.uint64)
    if targets is None:
        targets = np.arange(n_chains)
    order = np.ascontiguousarray(order, dtype=np.int32)
    used = np.flatnonzero(np.diff(starts))
    out[np.delete(targets, used)] = modulus.one
    if len(used):
        _multiply_chains(source, order, starts, used, modulus, out, targets, n_threads)
    return out


def check_rows(name: str, rows: NDArray[np.integer[Any]], n_rows: int) -> None:
    """Raise IndexError unless all row numbers are of rows that exist: the kernels read memory unchecked."""
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < n_rows:
        raise IndexError(f"{name} names rows outside 0 to {n_rows - 1}")


def check_starts(starts: NDArray[np.int64], length: int) -> None:
    """Raise ValueError unless `starts` ascends within an array of so many places."""
    if starts.dtype.kind != "i":
        raise ValueError(f"starts must be signed integers, not {starts.dtype}")
    if len(starts) == 0 or starts[0] < 0 or (np.diff(starts) < 0).any() or starts[-1] > length:
        raise ValueError(f"starts must ascend from 0 at least to {length} at most")


def _multiply_chains(
    source: Rows,
    order: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    used: NDArray[np.int64],
    modulus: Modulus,
    out: Rows,
    targets: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Products of the chains `used`, which are not empty."""
    first, last = int(starts[used[0]]), int(starts[used[-1] + 1])
    n_parts = len(blocks(last - first, n_threads, modulus.steps))
    cuts = first + (last - first) * np.arange(LANES * n_parts + 1) // (LANES * n_parts)
    bounds = np.union1d(starts[used], cuts)
    pieces = bounds[:-1]
    chain = used[np.searchsorted(starts[used], pieces, side="right") - 1]
    is_rest = pieces != starts[chain]
    rest_of = chain[is_rest]
    rests = np.empty((len(rest_of), modulus.width), dtype=np.uint64)
    destinations = np.where(is_rest, -np.cumsum(is_rest), targets[chain])
    spans = np.searchsorted(bounds, cuts)
    chains = path_kernels().chains

    def work(index: int, _start: int, _stop: int) -> None:
        own = spans[LANES * index : LANES * (index + 1) + 1]
        chains(source, order, bounds, destinations, own, *modulus.constants, out, rests)

    run(work, [(i, i + 1) for i in range(n_parts)])
    while len(rest_of):
        once, at = np.unique(rest_of, return_index=True)
        out[targets[once]] = multiply(out[targets[once]], rests[at], modulus, n_threads)
        rest_of, rests = np.delete(rest_of, at), np.delete(rests, at, axis=0)


def invert(rows: Rows, modulus: Modulus, n_threads: int = 0) -> Rows:
    """Inverses of all rows for three products a row and one inversion.

    A tree of pairwise products, inverted at the root: with ``p = 1/(x y)``, ``1/x = p y`` and ``1/y = p x``.

    Raises
    ------
    ZeroDivisionError
        If a row is not invertible; it names the first.
    """
    rows = _as_rows(rows, modulus)
    if len(rows) == 0:
        return rows
    try:
        return _invert_tree(rows, modulus, n_threads)
    except ZeroDivisionError:
        first = next(i for i, row in enumerate(from_rows(rows)) if gmpy2.gcd(row, modulus.value) != 1)
        raise ZeroDivisionError(f"row {first} is not invertible") from None


def _invert_tree(rows: Rows, modulus: Modulus, n_threads: int) -> Rows:
    if len(rows) == 1:
        # The row is x·R, its inverse in Montgomery form R / x = R² / (x·R).
        inverse = int(gmpy2.invert(from_rows(rows)[0], modulus.value))
        return to_rows([modulus.radix * modulus.radix * inverse % modulus.value], modulus.width)
    out = np.empty_like(rows)
    paired = len(rows) // 2 * 2
    left, right = rows[0:paired:2], rows[1:paired:2]
    pairs = multiply(left, right, modulus, n_threads)
    inverses = _invert_tree(np.concatenate([pairs, rows[paired:]]), modulus, n_threads)
    out[0:paired:2] = multiply(inverses[: len(pairs)], right, modulus, n_threads)
    out[1:paired:2] = multiply(inverses[: len(pairs)], left, modulus, n_threads)
    out[paired:] = inverses[len(pairs) :]
    return out


def are_units(rows: Rows, modulus: Modulus, n_threads: int = 0) -> bool:
    """Whether every row is invertible: their product is, for one product a row and one gcd."""
    product = chain_products(
        rows, np.arange(len(rows)), np.array([0, len(rows)]), modulus, n_threads=n_threads
    )
    return bool(gmpy2.gcd(from_rows(product)[0], modulus.value) == 1)


def power(rows: Rows, exponent: int, modulus: Modulus, n_threads: int = 0) -> Rows:
    """The same power of every row, by sliding windows.

    Parameters
    ----------
    rows : ndarray of uint64, shape (n_rows, width)
    exponent : int
        Not negative.
    modulus : Modulus
    n_threads : int
        Threads at most; 0 means all available processors.
    """
    rows = _as_rows(rows, modulus)
    if exponent < 0:
        raise ValueError("the exponent is negative; invert the rows first")
    if exponent == 0:
        return np.repeat(modulus.one, len(rows), axis=0)
    squarings, digits = _sliding_windows(exponent)
    n_odd = int(digits.max()) + 1
    out = np.empty_like(rows)
    powers = path_kernels().powers

    def work(start: int, stop: int) -> None:
        powers(rows, squarings, digits, n_odd, *modulus.constants, out, start, stop)

    _over_rows(len(rows), modulus.steps * exponent.bit_length(), n_threads, work)
    return out


def shift(rows: Rows, bits: int, modulus: Modulus, n_threads: int = 0) -> Rows:
    """The power ``2^bits`` of every row: what a shift of the plaintext is on ciphertexts."""
    return power(rows, 1 << bits, modulus, n_threads)


def _window_bits(exponent_bits: int) -> int:
    """The window that takes fewest products: 2^(w-1) odd powers and one product every w + 1 bits."""
    return min(range(1, 9), key=lambda w: (1 << (w - 1)) + exponent_bits / (w + 1))


def _sliding_windows(exponent: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Steps "square so often, then multiply by odd power number d" (−1: do not) that make the power.

    The first step has no squarings: it starts from its odd power.
    """
    window = _window_bits(exponent.bit_length()) if exponent & (exponent - 1) else 1
    squarings: list[int] = []
    digits: list[int] = []
    pending = 0
    at = exponent.bit_length() - 1
    while at >= 0:
        if not exponent >> at & 1:
            pending += 1
            at -= 1
            continue
        low = max(at - window + 1, 0)
        while not exponent >> low & 1:
            low += 1
        odd = exponent >> low & ((1 << (at - low + 1)) - 1)
        squarings.append(pending + at - low + 1 if squarings else 0)
        digits.append(odd >> 1)
        pending = 0
        at = low - 1
    if pending:
        squarings.append(pending)
        digits.append(-1)
    return np.array(squarings), np.array(digits)


WINDOW_BITS = 10
"""Bits of an exponent that one table row serves: a table of 12 MB for a 2048-bit Okamoto–Uchiyama key."""


class FixedBase:
    """Powers of one base: a table of ``base^(d·2^(10 w))`` for every digit d at every place w of an exponent.

    A power is then the product of one table row a digit: a chain.

    Parameters
    ----------
    base : int
    exponent_bits : int
        Longest exponent.
    modulus : Modulus
    """

    def __init__(self, base: int, exponent_bits: int, modulus: Modulus, n_threads: int = 0) -> None:
        self._modulus = modulus
        self._exponent_bits = exponent_bits
        self._places = max(1, -(-exponent_bits // WINDOW_BITS))
        first = [base % modulus.value]
        for _ in range(self._places - 1):
            first.append(int(gmpy2.powmod(first[-1], 1 << WINDOW_BITS, modulus.value)))
        table = np.empty((1 << WINDOW_BITS, self._places, modulus.width), dtype=np.uint64)
        table[0] = modulus.one
        step = encode(first, modulus, n_threads)
        for k in (1 << bit for bit in range(WINDOW_BITS)):
            low = table[:k].reshape(-1, modulus.width)
            table[k : 2 * k] = multiply(low, np.tile(step, (k, 1)), modulus, n_threads).reshape(
                table[:k].shape
            )
            step = multiply(step, step, modulus, n_threads)
        self._rows = table.reshape(-1, modulus.width)

    def __repr__(self) -> str:
        """Size only: base and modulus may be secrets."""
        return f"FixedBase({self._exponent_bits} exponent bits, {self._modulus!r})"

    def powers(self, exponents: Rows, n_threads: int = 0) -> Rows:
        """One power for each exponent, given as a row of words."""
        out = np.empty((len(exponents), self._modulus.width), dtype=np.uint64)
        for first in range(0, len(exponents), _POWERS_AT_ONCE):
            part = exponents[first : first + _POWERS_AT_ONCE]
            order = self._digits(part) * self._places + np.arange(self._places)
            starts = np.arange(len(part) + 1) * self._places
            chain_products(
                self._rows,
                order.reshape(-1),
                starts,
                self._modulus,
                out=out[first : first + len(part)],
                n_threads=n_threads,
            )
        return out

    def _digits(self, exponents: Rows) -> NDArray[np.int64]:
        """Digits of exponents, least significant first, shape (n_exponents, n_places)."""
        words = widened(exponents, max(exponents.shape[1], n_words(WINDOW_BITS * self._places)) + 1)
        word, shift = np.divmod(WINDOW_BITS * np.arange(self._places), 64)
        low = words[:, word] >> shift.astype(np.uint64)
        # A shift by all 64 bits would be undefined: two shifts.
        high = (words[:, word + 1] << (63 - shift).astype(np.uint64)) << np.uint64(1)
        digits = (low | high) & np.uint64((1 << WINDOW_BITS) - 1)
        end, rest = divmod(WINDOW_BITS * self._places, 64)
        if (words[:, end] >> np.uint64(rest)).any() or words[:, end + 1 :].any():
            raise ValueError(f"exponents have at most {WINDOW_BITS * self._places} bits")
        return np.asarray(digits.astype(np.int64))

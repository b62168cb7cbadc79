"""Several 64-bit integers in one vector register, as a value numba code can hold: eight, or four.

LLVM vector types have no numba type of their own; `Lanes` is one, and every
function below is one vector instruction (or a short fixed shuffle) on it.
Registers of eight are for AVX-512; those of four fit AVX2, and LLVM makes two of one where they are shorter.
The limbs of a *packed* register lie one after another in its first 416 bits, as in a row of words.
Only code behind `has_ifma` may call `madd_low` and `madd_high`: LLVM cannot
compile them for a processor without AVX-512 IFMA.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic as _typed_intrinsic
from numba.extending import models, register_model

intrinsic: Any = _typed_intrinsic
"""numba declares what the definition of an intrinsic takes; kernels call it without the typing context."""

LANES = 8
"""Integers in a long register."""

FEW_LANES = 4
"""Integers in a short one."""

LIMB_BITS = 52
"""Bits of a limb: what the IFMA multiplier takes."""

LIMB_MASK = (1 << LIMB_BITS) - 1
HALF_BITS = LIMB_BITS // 2
"""Bits of half a limb: what every vector multiplier takes."""

HALF_MASK = (1 << HALF_BITS) - 1
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, LANES)
_BYTES = ir.VectorType(ir.IntType(8), 8 * LANES)
_HALVES = ir.VectorType(ir.IntType(32), 2 * LANES)


class Lanes(types.Type):
    """The numba type of so many unsigned 64-bit integers."""

    def __init__(self, count: int) -> None:
        super().__init__(name=f"Lanes({count})")
        self.count = count


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Lanes) -> None:
        super().__init__(dmm, fe_type, ir.VectorType(_WORD, fe_type.count))


_lanes = Lanes(LANES)
_few_lanes = Lanes(FEW_LANES)


@lru_cache(maxsize=1)
def has_ifma() -> bool:
    """Whether numba compiles for a processor with AVX-512 IFMA.

    Asked of numba's own code generator, so that ``NUMBA_CPU_NAME`` and the like are obeyed.  The same
    features are part of the key of numba's disk cache: another processor never gets this one's code.
    """
    features = str(cpu_target.target_context.codegen().magic_tuple()).split(",")
    return any("+avx512ifma" in feature for feature in features)


def _constant(*values: int) -> ir.Constant:
    return ir.Constant(_VECTOR, list(values))


def _every(value: int, count: int = LANES) -> ir.Constant:
    return ir.Constant(ir.VectorType(_WORD, count), [value] * count)


def _bits(count: int) -> ir.VectorType:
    """The LLVM type of one bit a lane."""
    return ir.VectorType(ir.IntType(1), count)


def _shuffle_mask(places: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(places)), places)


def _address(
    context: Any, builder: Any, array_type: Any, array: Any, byte: Any, vector: Any = _VECTOR
) -> Any:
    """Pointer to a vector that starts at a byte of an array's data, aligned or not."""
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    start = builder.bitcast(data, ir.IntType(8).as_pointer())
    return builder.bitcast(builder.gep(start, [byte]), vector.as_pointer())


def _load(lanes: Lanes) -> Any:
    """A function ``(array, byte)``: a register from the bytes of an array from `byte` on."""

    def typed(array: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(_WORD, lanes.count)
            loaded = builder.load(
                _address(context, builder, signature.args[0], arguments[0], arguments[1], vector)
            )
            loaded.align = 4
            return loaded

        return lanes(array, types.int64), generate

    return intrinsic(lambda typing_context, array, byte: typed(array))


@intrinsic
def prefetch(typing_context, array, byte):
    """Have the cache line with a byte of an array brought near; nothing waits for it."""

    def generate(context, builder, signature, arguments):
        source, at = arguments
        place = _address(context, builder, signature.args[0], source, at, ir.IntType(8))
        flag = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        # For reading, to keep in every level of the cache, of data.
        builder.call(function, [place, flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def store(typing_context, array, byte, value):
    """Write a register to the bytes of an array from `byte` on."""

    def generate(context, builder, signature, arguments):
        target, at, register = arguments
        place = _address(context, builder, signature.args[0], target, at, register.type)
        builder.store(register, place).align = 4
        return context.get_dummy_value()

    return types.void(array, types.int64, value), generate


def _first_halves(builder: Any, count: Any) -> Any:
    """Mask of the first so many 32-bit halves of a register."""
    ones = builder.shl(ir.Constant(ir.IntType(32), 1), builder.trunc(count, ir.IntType(32)))
    bits = builder.trunc(builder.sub(ones, ir.Constant(ir.IntType(32), 1)), ir.IntType(2 * LANES))
    return builder.bitcast(bits, ir.VectorType(ir.IntType(1), 2 * LANES))


@intrinsic
def load_first(typing_context, array, byte, count):
    """The first `count` 32-bit halves from `byte` on, zeros after them; nothing more is read."""

    def generate(context, builder, signature, arguments):
        place = _address(context, builder, signature.args[0], *arguments[:2])
        place = builder.bitcast(place, _HALVES.as_pointer())
        mask = _first_halves(builder, arguments[2])
        operands = [_HALVES.as_pointer(), ir.IntType(32), mask.type, _HALVES]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(_HALVES, operands), "llvm.masked.load.v16i32.p0v16i32"
        )
        zeros = ir.Constant(_HALVES, [0] * 2 * LANES)
        loaded = builder.call(function, [place, ir.Constant(ir.IntType(32), 4), mask, zeros])
        return builder.bitcast(loaded, _VECTOR)

    return _lanes(array, types.int64, types.int64), generate


@intrinsic
def store_first(typing_context, array, byte, value, count):
    """Write the first `count` 32-bit halves from `byte` on, and nothing else."""

    def generate(context, builder, signature, arguments):
        place = _address(context, builder, signature.args[0], *arguments[:2])
        place = builder.bitcast(place, _HALVES.as_pointer())
        mask = _first_halves(builder, arguments[3])
        operands = [_HALVES, _HALVES.as_pointer(), ir.IntType(32), mask.type]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), operands), "llvm.masked.store.v16i32.p0v16i32"
        )
        halves = builder.bitcast(arguments[2], _HALVES)
        builder.call(function, [halves, place, ir.Constant(ir.IntType(32), 4), mask])
        return context.get_dummy_value()

    return types.void(array, types.int64, _lanes, types.int64), generate


def _splat(lanes: Lanes) -> Any:
    """A function ``(word)``: the word in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(ir.VectorType(_WORD, lanes.count), ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, undefined, _shuffle_mask([0] * lanes.count))

    return intrinsic(lambda typing_context, word: (lanes(types.uint64), generate))


@intrinsic
def all_set(typing_context, mask):
    """Whether the lowest bit is set in every lane."""

    def generate(context, builder, signature, arguments):
        whole = ir.IntType(mask.count)
        bits = builder.bitcast(builder.trunc(arguments[0], _bits(mask.count)), whole)
        return builder.icmp_unsigned("==", bits, ir.Constant(whole, (1 << mask.count) - 1))

    return types.boolean(mask), generate


def _operation(n_operands: int, build: Callable[..., Any]) -> Any:
    """A function of lanes; ``build(builder, *operands)`` emits its instructions."""

    def typed(*operands: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return build(builder, *arguments)

        return operands[0](*operands), generate

    if n_operands == 1:
        return intrinsic(lambda typing_context, a: typed(a))
    if n_operands == 2:
        return intrinsic(lambda typing_context, a, b: typed(a, b))
    return intrinsic(lambda typing_context, a, b, c: typed(a, b, c))


def _multiply_add(half: str) -> Any:
    def build(builder: Any, *operands: Any) -> Any:
        signature = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        name = f"llvm.x86.avx512.vpmadd52{half}.uq.512"
        return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), operands)

    return _operation(3, build)


def _multiply_add_halves(builder: Any, total: Any, a: Any, b: Any) -> Any:
    low = _every((1 << 32) - 1, total.type.count)
    return builder.add(total, builder.mul(builder.and_(a, low), builder.and_(b, low)))


def _shuffle(places: list[int]) -> Any:
    """Lanes picked from two registers: 0 to 7 from the first, 8 to 15 from the second."""
    return _operation(2, lambda builder, a, b: builder.shuffle_vector(a, b, _shuffle_mask(places)))


def _pick_bytes(builder: Any, a: Any, places: list[int | None]) -> Any:
    """Bytes of a register by number; zero for None."""
    whole = builder.bitcast(a, _BYTES)
    zeros = ir.Constant(_BYTES, [0] * 64)
    mask = _shuffle_mask([64 if place is None else place for place in places])
    return builder.bitcast(builder.shuffle_vector(whole, zeros, mask), _VECTOR)


_NIBBLES = [4 * (k % 2) for k in range(LANES)]
"""Bits by which a packed limb starts inside its first byte, number 52 k // 8."""


def _from_packed(builder: Any, a: Any) -> Any:
    """Seven bytes from the one where limb k starts, moved down to its first bit, without what follows it."""
    places = [LIMB_BITS * k // 8 + i if i < 7 else None for k in range(LANES) for i in range(8)]
    limbs = builder.lshr(_pick_bytes(builder, a, places), _constant(*_NIBBLES))
    return builder.and_(limbs, _every(LIMB_MASK))


def _to_packed(builder: Any, a: Any) -> Any:
    """Limb k, seven bytes of it, goes to byte 52 k // 8; limbs of odd and even number share a byte."""
    limbs = builder.shl(a, _constant(*_NIBBLES))
    halves = []
    for parity in (0, 1):
        places: list[int | None] = [None] * 64
        for k in range(parity, LANES, 2):
            start = LIMB_BITS * k // 8
            places[start : start + 7] = range(8 * k, 8 * k + 7)
        halves.append(_pick_bytes(builder, limbs, places))
    return builder.or_(*halves)


load = _load(_lanes)
load_few = _load(_few_lanes)
splat = _splat(_lanes)
splat_few = _splat(_few_lanes)
add = _operation(2, lambda builder, a, b: builder.add(a, b))
subtract = _operation(2, lambda builder, a, b: builder.sub(a, b))
both = _operation(2, lambda builder, a, b: builder.and_(a, b))
low_limb = _operation(1, lambda builder, a: builder.and_(a, _every(LIMB_MASK)))
above_limb = _operation(1, lambda builder, a: builder.lshr(a, _every(LIMB_BITS)))
low_half = _operation(1, lambda builder, a: builder.and_(a, _every(HALF_MASK, a.type.count)))
above_half = _operation(1, lambda builder, a: builder.lshr(a, _every(HALF_BITS, a.type.count)))
sign = _operation(1, lambda builder, a: builder.ashr(a, _every(63, a.type.count)))
where = _operation(
    3, lambda builder, mask, a, b: builder.select(builder.trunc(mask, _bits(mask.type.count)), a, b)
)
madd_halves = _operation(3, _multiply_add_halves)
madd_low = _multiply_add("l")
madd_high = _multiply_add("h")
from_packed = _operation(1, _from_packed)
to_packed = _operation(1, _to_packed)
even_words = _shuffle([0, 8, 2, 10, 4, 12, 6, 14])
odd_words = _shuffle([1, 9, 3, 11, 5, 13, 7, 15])
even_pairs = _shuffle([0, 1, 8, 9, 4, 5, 12, 13])
odd_pairs = _shuffle([2, 3, 10, 11, 6, 7, 14, 15])
low_halves = _shuffle([0, 1, 2, 3, 8, 9, 10, 11])
high_halves = _shuffle([4, 5, 6, 7, 12, 13, 14, 15])

"""Vectors of sixteen float32 numbers: one per trial, or sixteen coordinates of one model.

The compiler does not vectorise loops this short, so a value of type `Lanes` is an LLVM vector:
`load` reads 16 adjacent entries of an array, arithmetic is lane by lane, and multiply-adds are
fused only where the code says so. Only `total` adds across lanes, in a fixed order. The results
have the same bits on machines with narrower registers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable
from numpy.typing import NDArray

LANES = 16

_WORD = ir.IntType(32)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


class _LanesType(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name="Lanes")


_lanes = _LanesType()


@register_model(_LanesType)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _address(context: Any, builder: Any, kind: Any, array: Any, first: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [first], inbounds=True), _VECTOR.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def load(typing_context: Any, array: Any, first: Any) -> Any:
    """Load entries `first … first + 15` of a flat float32 array; bounds are not checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address = _address(context, builder, signature.args[0], *arguments)
        return builder.load(address, align=4)

    return _lanes(array, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def store(typing_context: Any, array: Any, first: Any, value: Any) -> Any:
    """Write entries `first … first + 15` of a flat float32 array; bounds are not checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, value = arguments
        address = _address(context, builder, signature.args[0], array, first)
        builder.store(value, address, align=4)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def add_product(typing_context: Any, array: Any, first: Any, a: Any, b: Any) -> Any:
    """Add `a·b` to entries `first … first + 15` of a flat array of single or double precision.

    In a single-precision array `old + a·b` is rounded once. For a double-precision array the
    product is rounded to single precision, and long sums are almost exact.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, first, a, b = arguments
        kind = signature.args[0]
        if kind.dtype == types.float32:
            address = _address(context, builder, kind, array, first)
            old = builder.load(address, align=4)
            new = _call("fma", 3)(context, builder, signature, [a, b, old])
            builder.store(new, address, align=4)
        else:
            wide = ir.VectorType(ir.DoubleType(), LANES)
            data = context.make_array(kind)(context, builder, array).data
            address = builder.bitcast(builder.gep(data, [first], inbounds=True), wide.as_pointer())
            added = builder.fpext(builder.fmul(a, b), wide)
            builder.store(builder.fadd(builder.load(address, align=8), added), address, align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes, _lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def every(typing_context: Any, number: Any) -> Any:
    """Broadcast a float32 to every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        one = builder.insert_element(nothing, arguments[0], ir.Constant(_WORD, 0))
        zeros = ir.Constant(ir.VectorType(_WORD, LANES), [0] * LANES)
        return builder.shuffle_vector(one, nothing, zeros)

    return _lanes(types.float32), generate


def _call(name: str, count: int) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * count)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v16f32")
        return builder.call(function, arguments)

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """`a·b + c` rounded once."""
    return _lanes(_lanes, _lanes, _lanes), _call("fma", 3)


@intrinsic  # type: ignore[untyped-decorator]
def least(typing_context: Any, a: Any, b: Any) -> Any:
    """Lane-wise minimum; a NaN in `a` is kept, `b` must hold none."""
    return _lanes(_lanes, _lanes), _compared("<")


@intrinsic  # type: ignore[untyped-decorator]
def greatest(typing_context: Any, a: Any, b: Any) -> Any:
    """Lane-wise maximum; a NaN in `a` is kept, `b` must hold none."""
    return _lanes(_lanes, _lanes), _compared(">")


def _compared(sign: str) -> Callable[..., Any]:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, b = arguments
        # An ordered comparison with NaN is false.
        return builder.select(builder.fcmp_ordered(sign, b, a), b, a)

    return generate


@intrinsic  # type: ignore[untyped-decorator]
def root(typing_context: Any, a: Any) -> Any:
    """Lane-wise square root."""
    return _lanes(_lanes), _call("sqrt", 1)


@intrinsic  # type: ignore[untyped-decorator]
def nearest(typing_context: Any, a: Any) -> Any:
    """Lane-wise rounding to the nearest integer, ties to even."""
    return _lanes(_lanes), _call("rint", 1)


@intrinsic  # type: ignore[untyped-decorator]
def magnitude(typing_context: Any, a: Any) -> Any:
    """Lane-wise absolute value."""
    return _lanes(_lanes), _call("fabs", 1)


@intrinsic  # type: ignore[untyped-decorator]
def with_sign(typing_context: Any, a: Any, b: Any) -> Any:
    """Lane-wise magnitude of `a` with the sign of `b`."""
    return _lanes(_lanes, _lanes), _call("copysign", 2)


@intrinsic  # type: ignore[untyped-decorator]
def where_within(typing_context: Any, value: Any, x: Any, low: Any, high: Any) -> Any:
    """Lane-wise `value` where `low <= x <= high` or `x` is NaN, else 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, x, low, high = arguments
        beyond = builder.or_(builder.fcmp_ordered("<", x, low), builder.fcmp_ordered(">", x, high))
        return builder.select(beyond, ir.Constant(_VECTOR, [0.0] * LANES), value)

    return _lanes(_lanes, _lanes, _lanes, _lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def select(typing_context: Any, which: Any, a: Any, b: Any) -> Any:
    """Lane-wise `a` where `which` is 1, `b` where it is 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        which, a, b = arguments
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("!=", which, zero), a, b)

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def exceeds(typing_context: Any, a: Any, b: Any) -> Any:
    """Whether any lane of `a` is greater than that of `b`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(LANES)
        greater = builder.bitcast(builder.fcmp_ordered(">", *arguments), word)
        return builder.icmp_unsigned("!=", greater, ir.Constant(word, 0))

    return types.boolean(_lanes, _lanes), generate


@intrinsic  # type: ignore[untyped-decorator]
def dot(typing_context: Any, a: Any, p: Any, b: Any, q: Any, count: Any) -> Any:
    """`Σ_c a[p + 16 c …] · b[q + 16 c …]` over `count` vectors, lane by lane.

    Even and odd terms have separate sums, so that consecutive multiply-adds are independent. This
    is an intrinsic, not a kernel, because numba counts array references at each call of a kernel.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, (a, p, b, q, count) = signature.args, arguments
        number = count.type
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]

        def add(term: Any, to: Any) -> None:
            far = builder.mul(term, ir.Constant(number, LANES))
            x = builder.load(_address(context, builder, kinds[0], a, builder.add(p, far)), align=4)
            y = builder.load(_address(context, builder, kinds[2], b, builder.add(q, far)), align=4)
            fused = _call("fma", 3)(context, builder, signature, [x, y, builder.load(to)])
            builder.store(fused, to)

        one = ir.Constant(number, 1)
        with cgutils.for_range(builder, builder.ashr(count, one)) as pair:
            even = builder.shl(pair.index, one)
            add(even, sums[0])
            add(builder.add(even, one), sums[1])
        with builder.if_then(builder.trunc(count, ir.IntType(1))):
            add(builder.sub(count, one), sums[0])
        return builder.fadd(*(builder.load(partial_sum) for partial_sum in sums))

    return _lanes(a, types.intp, b, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def total(typing_context: Any, a: Any) -> Any:
    """The sum of the lanes, folded in halves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, width = arguments[0], LANES
        while width > 1:
            width //= 2
            both = [
                ir.Constant(ir.VectorType(_WORD, width), list(range(start, start + width)))
                for start in (0, width)
            ]
            low, high = (builder.shuffle_vector(value, value, half) for half in both)
            value = builder.fadd(low, high)
        return builder.extract_element(value, ir.Constant(_WORD, 0))

    return types.float32(_lanes), generate


def _arithmetic(sign: Callable[[Any, Any], Any], method: str) -> None:
    @type_callable(sign)  # type: ignore[untyped-decorator]
    def typed(context: Any) -> Any:
        def kind(a: Any, b: Any) -> Any:
            return _lanes if a is _lanes and b is _lanes else None

        return kind

    @lower_builtin(sign, _LanesType, _LanesType)  # type: ignore[untyped-decorator]
    def lowered(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, method)(*arguments)


for _sign, _method in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _arithmetic(_sign, _method)


def aligned(*shape: int) -> NDArray[np.float32]:
    """Return an array of zeros that starts at a cache-line boundary."""
    count = int(np.prod(shape))
    whole = np.zeros(count + LANES, np.float32)
    first = -whole.ctypes.data // whole.itemsize % LANES
    return whole[first : first + count].reshape(shape)

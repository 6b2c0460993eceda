"""Exponential and logarithm in float32, written so that a loop over them becomes vector instructions.

Reduction to one octave and a minimax polynomial, after Cephes (Moshier): relative errors below 2e-7. The steps that
split a number into exponent and fraction need its bits, which only intrinsics reach.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

ZERO, ONE = np.float32(0.0), np.float32(1.0)

EXACT = {"contract"}
"""Compiler flags where the order of operations matters: a product and a sum may be fused, nothing else."""

SUMS = {"contract", "reassoc", "nsz", "arcp"}
"""Flags for sums over samples or classes: their order may change too, which vector instructions need."""

ORDERED = SUMS | {"nnan", "ninf"}
"""The same where no value is NaN or infinite, which the search for a maximum needs."""

LOWEST = np.float32(-87.0)
"""Exponents are held above this: exp(-87) is 1.6e-38, and smaller results would be denormal and slow."""

LOG2E = np.float32(1.44269504088896341)
LOWEST_TWO = np.float32(-125.0)
"""The same of powers of two."""

_F, _I = ir.FloatType(), ir.IntType(32)


def _constant(value: int) -> ir.Constant:
    return ir.Constant(_I, value)


@intrinsic
def _times_two_to(typing: Any, value: Any, power: Any) -> Any:
    """`value * 2^power` for a whole-numbered float32 power from -126 to 127."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, exponent = arguments
        biased = builder.add(builder.fptosi(exponent, _I), _constant(127))
        factor = builder.bitcast(builder.shl(biased, _constant(23)), _F)
        return builder.fmul(number, factor)

    return types.float32(types.float32, types.float32), codegen


@intrinsic
def _raised(typing: Any, value: Any, power: Any) -> Any:
    """The same for a value from 1/2 to 2 whose product is a normal number: a sum of bits."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        number, exponent = arguments
        moved = builder.shl(builder.fptosi(exponent, _I), _constant(23))
        return builder.bitcast(builder.add(builder.bitcast(number, _I), moved), _F)

    return types.float32(types.float32, types.float32), codegen


@intrinsic
def _product_plus(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """`a b + c`, rounded once where the processor can."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = builder.module.declare_intrinsic("llvm.fmuladd", [_F], ir.FunctionType(_F, [_F] * 3))
        return builder.call(own, arguments)

    return types.float32(types.float32, types.float32, types.float32), codegen


@intrinsic
def _larger(typing: Any, a: Any, b: Any) -> Any:

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = builder.module.declare_intrinsic("llvm.maximum", [_F], ir.FunctionType(_F, [_F] * 2))
        return builder.call(own, arguments, fastmath=("nnan", "ninf", "nsz"))

    return types.float32(types.float32, types.float32), codegen


@intrinsic
def _exponent(typing: Any, value: Any) -> Any:
    """The e with `value = 2^e f`, 1 <= f < 2, as float32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], _I)
        return builder.sitofp(builder.sub(builder.lshr(bits, _constant(23)), _constant(127)), _F)

    return types.float32(types.float32), codegen


@intrinsic
def _fraction(typing: Any, value: Any) -> Any:
    """The f with `value = 2^e f`, 1 <= f < 2."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.bitcast(arguments[0], _I)
        return builder.bitcast(builder.or_(builder.and_(bits, _constant(0x7FFFFF)), _constant(0x3F800000)), _F)

    return types.float32(types.float32), codegen


@njit(fastmath=EXACT, error_model="numpy", forceinline=True)
def larger(a: np.float32, b: np.float32) -> np.float32:
    """The larger of two numbers, neither NaN. A search with it becomes vector instructions, unlike one with `max`."""
    return _larger(a, b)  # type: ignore[call-arg]


@njit(fastmath=EXACT, error_model="numpy", forceinline=True)
def exp(x: np.float32) -> np.float32:
    """`e^x`; x is held in [-87, 87]."""
    x = min(max(x, np.float32(-87.0)), np.float32(87.0))
    power = np.floor(x * np.float32(1.44269504088896341) + np.float32(0.5))
    r = x - power * np.float32(0.693359375) + power * np.float32(2.12194440e-4)
    y = np.float32(1.9875691500e-4)
    y = y * r + np.float32(1.3981999507e-3)
    y = y * r + np.float32(8.3334519073e-3)
    y = y * r + np.float32(4.1665795894e-2)
    y = y * r + np.float32(1.6666665459e-1)
    y = y * r + np.float32(5.0000001201e-1)
    return _times_two_to(y * (r * r) + r + np.float32(1.0), power)  # type: ignore[call-arg]


@njit(fastmath=EXACT, error_model="numpy", forceinline=True)
def power_of_two(gap: np.float32, rate: np.float32) -> np.float32:
    """`2^(gap rate)` for a product in [-126, 126], for terms of a softmax: half the steps of `exp`.

    A polynomial of 2^r, |r| <= 1/2, with a relative error below 2.5e-7. Where the processor rounds a product and a sum
    at once, only `rate`, 1.44 over a temperature, is rounded before; else the error grows by 4e-8 of the product.
    """
    whole = np.rint(gap * rate)
    r: Any = _product_plus(gap, rate, -whole)  # type: ignore[call-arg]
    y = np.float32(1.3266971e-3)
    y = y * r + np.float32(9.67546e-3)
    y = y * r + np.float32(5.5507425e-2)
    y = y * r + np.float32(2.4022122e-1)
    y = y * r + np.float32(6.9314694e-1)
    y = y * r + np.float32(1.0)
    return _raised(y, whole)


@njit(fastmath=EXACT, error_model="numpy", forceinline=True)
def log(x: np.float32) -> np.float32:
    """`log x` for a positive, normal x."""
    power: Any = _exponent(x)  # type: ignore[call-arg]
    f: Any = _fraction(x)
    high = f > np.float32(1.41421356237)
    power = power + (np.float32(1.0) if high else np.float32(0.0))
    r = (f * np.float32(0.5) if high else f) - np.float32(1.0)
    y = np.float32(7.0376836292e-2)
    y = y * r - np.float32(1.1514610310e-1)
    y = y * r + np.float32(1.1676998740e-1)
    y = y * r - np.float32(1.2420140846e-1)
    y = y * r + np.float32(1.4249322787e-1)
    y = y * r - np.float32(1.6668057665e-1)
    y = y * r + np.float32(2.0000714765e-1)
    y = y * r - np.float32(2.4999993993e-1)
    y = y * r + np.float32(3.3333331174e-1)
    z = r * r
    tail = r * z * y - power * np.float32(2.12194440e-4) - np.float32(0.5) * z
    return r + tail + power * np.float32(0.693359375)

"""The interpreter of PTX: its arithmetic against exact numbers, its memory, and what stops a launch."""

import math
import struct
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from edgetune.errors import InputError
from edgetune.processes.worker_pool import worker_pool
from edgetune.stages.elastic.gpu import Pointer, Scalar
from edgetune.stages.elastic.ptx import arithmetic, interpreter
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.sample_launches import FORWARD, REVERSE, CpuLaunch, CpuResult, ExecutionOrder, chance

HEAD = (
    ".version 8.0\n.target sm_87\n.address_size 64\n.const .align 4 .b8 table[8] = {1, 0, 0, 0, 255, 255, 255, 255};\n"
)
DECLARED = """.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<19>; .reg .b64 %rd<19>; .reg .f32 %f<9>; .reg .f64 %fd<9>;
  .shared .align 16 .b8 held[256]; .local .align 4 .b8 own[16];
  ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
"""


def run(
    body: str,
    memory: np.ndarray,
    *,
    grid: int = 1,
    block: int = 32,
    order: ExecutionOrder = FORWARD,
    limit_s: int = 2,
    head: str = HEAD,
) -> CpuResult:
    """Run a kernel on one buffer; register rd3 has the address of its thread's four bytes."""
    text = f"{head}.visible .entry k(.param .u64 k_param_0)\n{{\n{DECLARED}{body}\nret;\n}}\n"
    launch = CpuLaunch("k", (grid, 1, 1), (block, 1, 1), (Pointer("m"),))
    return next(PtxProgram(text, "k.ptx").run_all([([launch], order)], {"m": memory}, limit_s))


def found(body: str, values: np.ndarray, **how: Any) -> np.ndarray:
    outcome = run(body, values, **how)
    assert (outcome.status, outcome.message) == ("ok", "")
    return outcome.buffers["m"]


def is_nearest(got: np.floating, exact: Fraction) -> bool:
    """Return whether a number is the nearest of its type, of two the one with an even last bit."""
    beside = [np.nextafter(got, got.dtype.type(limit)) for limit in (-np.inf, np.inf)]
    error, others = abs(Fraction(float(got)) - exact), [abs(Fraction(float(each)) - exact) for each in beside]
    even = int(got.view(f"u{got.itemsize}")) % 2 == 0
    return error < min(others) or (error == min(others) and even)


singles = some.floats(-(2.0**50), 2.0**50, width=32)


@given(singles, singles, singles)
def test_fma_of_singles_is_rounded_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = arithmetic.fma(*(np.float32([each]) for each in (a, b, c)), np.dtype("f4"))[0]
    assert is_nearest(got, exact)


doubles = some.floats(-1e50, 1e50).filter(lambda each: each == 0 or abs(each) > 1e-50)


@given(doubles, doubles, doubles)
def test_fma_of_doubles_is_rounded_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = arithmetic.fma(*(np.float64([each]) for each in (a, b, c)), np.dtype("f8"))[0]
    assert got == float(exact)


@given(singles, singles, singles)
def test_directed_roundings_enclose_the_exact_value(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    arrays = [np.float32([each]) for each in (a, b, c)]
    down, up, near = (arithmetic.fma(*arrays, np.dtype("f4"), mode)[0] for mode in ("rm", "rp", "rn"))
    assert Fraction(float(down)) <= exact <= Fraction(float(up))
    assert up == down if Fraction(float(near)) == exact else up == np.nextafter(down, np.float32(np.inf))


@given(some.sampled_from(["add", "mul", "fma"]), some.sampled_from([np.float32, np.float64]), singles, singles, singles)
def test_directed_roundings_are_the_neighbours_of_the_exact_value(name: str, dtype: type, a: float, b: float, c: float):
    values = {"fma": [a, b, c]}.get(name, [a, b])
    x, y, z = map(Fraction, (a, b, c))
    exact = {"add": lambda: x + y, "mul": lambda: x * y, "fma": lambda: x * y + z}
    arrays = [np.array([each], dtype) for each in values]
    down, up, zero = (arithmetic.in_direction(name, np.dtype(dtype), mode, *arrays)[0] for mode in ("rm", "rp", "rz"))
    assert Fraction(float(down)) <= exact[name]() <= Fraction(float(up))
    assert up in (down, np.nextafter(down, dtype(np.inf)))
    assert zero == (down if up > 0 else up)


@given(some.integers(-(2**31), 2**31 - 1), some.integers(-(2**31), 2**31 - 1))
def test_division_goes_to_zero_and_the_remainder_has_the_sign_of_the_dividend(a: int, b: int) -> None:
    left, right = np.int32([a]), np.int32([b])
    if b and (a, b) != (-(2**31), -1):
        assert arithmetic.divided(left, right)[0] == math.trunc(Fraction(a, b))
        assert arithmetic.INTEGERS["rem"](left, right)[0] == math.fmod(a, b)
    assert arithmetic.high_half(left, right)[0] == (a * b) >> 32


@given(some.integers(0, 2**32 - 1), some.integers(0, 40))
def test_words_of_bits(a: int, by: int) -> None:
    value, amount = np.uint32([a]), np.uint32([by])
    assert arithmetic.INTEGERS["popc"](value)[0] == a.bit_count()
    assert arithmetic.reversed_bits(value)[0] == int(f"{a:032b}"[::-1], 2)
    assert arithmetic.highest_bit(value, False).view(np.int32)[0] == a.bit_length() - 1
    assert arithmetic.shifted(value, amount, True)[0] == (a << by) % 2**32
    assert arithmetic.shifted(value, amount, False)[0] == a >> by
    signed = value.view(np.int32)
    assert arithmetic.shifted(signed, amount, False)[0] == int(signed[0]) >> by
    assert arithmetic.funnel(value, value, amount, left=True, wrap=True)[0] == (
        (a << by % 32 | a >> (32 - by % 32)) % 2**32
    )
    assert arithmetic.field(value, np.uint32([4]), np.uint32([8]))[0] == (a >> 4) & 255
    assert (
        arithmetic.inserted(value, ~value, np.uint32([4]), np.uint32([8]))[0]
        == ((~a & 0xFFFFF00F) | (a & 255) << 4) % 2**32
    )
    assert arithmetic.permuted(value, ~value, np.uint32([0x4321]))[0] == ((~a & 255) << 24 | a >> 8) % 2**32
    assert arithmetic.looked_up(value, amount, ~value, 0x80)[0] == 0


CONVERSIONS = [
    ("cvt.rni.s32.f32 %r5, %f1;", 2.5, 2), ("cvt.rni.s32.f32 %r5, %f1;", 3.5, 4),
    ("cvt.rzi.s32.f32 %r5, %f1;", -2.7, -2),
    ("cvt.rmi.s32.f32 %r5, %f1;", -2.1, -3), ("cvt.rpi.s32.f32 %r5, %f1;", -2.7, -2),
    ("cvt.rzi.s32.f32 %r5, %f1;", 1e20, 2**31 - 1), ("cvt.rzi.s32.f32 %r5, %f1;", -math.inf, -(2**31)),
    ("cvt.rzi.s32.f32 %r5, %f1;", math.nan, 0), ("cvt.rzi.u32.f32 %r5, %f1;", -3.0, 0),
    ("cvt.rzi.s16.f32 %h1, %f1; cvt.s32.s16 %r5, %h1;", 1e6, 2**15 - 1),
    ("cvt.rzi.s64.f32 %rd5, %f1; cvt.u32.u64 %r5, %rd5;", 5.9, 5),
]  # fmt: skip


@pytest.mark.parametrize(("body", "value", "right"), CONVERSIONS)
def test_conversions_to_integers(body: str, value: float, right: int) -> None:
    memory = np.full(32, value, np.float32)
    got = found(f"ld.global.f32 %f1, [%rd3]; {body} st.global.u32 [%rd3], %r5;", memory)
    assert got.view(np.int32)[0] == right


def test_narrow_loads_are_extended_by_their_type() -> None:
    memory = np.full(32, -1, np.int32)
    assert set(found("ld.global.s8 %r5, [%rd3]; st.global.u32 [%rd3], %r5;", memory)) == {-1}
    assert set(found("ld.global.u8 %r5, [%rd3]; st.global.u32 [%rd3], %r5;", memory)) == {255}
    assert set(found("ld.global.s16 %rd5, [%rd3]; shr.u64 %rd5, %rd5, 60; st.global.u32 [%rd3], %rd5;", memory)) == {15}


def test_constants_vectors_and_parts_of_registers() -> None:
    body = """ld.const.v2.u32 {%r5, %r6}, [table]; mov.b64 %rd5, {%r5, %r6}; mov.b64 {%r7, %r8}, %rd5;
        sub.s32 %r9, %r7, %r8; st.global.u32 [%rd3], %r9;"""
    assert set(found(body, np.zeros(32, np.int32))) == {2}


def test_floating_point_constants_are_bits_of_integer_registers() -> None:
    body = "mov.b32 %r5, 0f3F800000; st.global.b32 [%rd3], %r5;"
    assert set(found(body, np.zeros(32, np.float32))) == {1.0}
    body = "mov.f32 %f1, 0fBF000000; cvt.rn.f16x2.f32 %r5, %f1, 0f40000000; st.global.b32 [%rd3], %r5;"
    assert list(found(body, np.zeros(32, np.float32)).view(np.float16)[:2]) == [2.0, -0.5]


def test_generic_addresses_reach_shared_and_local_memory() -> None:
    body = """shl.b32 %r5, %r1, 2; mov.u32 %r6, held; add.s32 %r5, %r5, %r6; cvt.u64.u32 %rd5, %r5;
        cvta.shared.u64 %rd6, %rd5; st.u32 [%rd6], %r4; ld.shared.u32 %r7, [%r5];
        mov.u64 %rd7, own; cvta.local.u64 %rd8, %rd7; st.u32 [%rd8+4], %r7; ld.local.u32 %r8, [own+4];
        cvta.to.global.u64 %rd9, %rd3; st.global.u32 [%rd9], %r8;"""
    assert list(found(body, np.zeros(96, np.int32), grid=3)) == list(range(96))


def test_shuffles_take_the_value_of_another_lane() -> None:
    each = np.arange(32, dtype=np.int32)
    for way, by, limit, right in (
        ("down", 3, 31, np.where(each + 3 < 32, each + 3, each)), ("up", 3, 0, np.where(each >= 3, each - 3, each)),
        ("bfly", 5, 31, each ^ 5), ("idx", 7, 31, np.full(32, 7)), ("idx", 2, 0x181F, each // 8 * 8 + 2),
        ("down", 4, 0x181F, np.where(each % 8 < 4, each + 4, each)),
    ):  # fmt: skip
        body = f"shfl.sync.{way}.b32 %r5|%p1, %r1, {by}, {limit}, -1; st.global.u32 [%rd3], %r5;"
        assert list(found(body, np.zeros(32, np.int32))) == list(right)


def bf16(value: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, rounded to nearest, with ties to even."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


LANE = np.arange(32)
BITS = np.random.default_rng(0).integers(0, 2**32, 32, np.uint32)
SINGLES = np.random.default_rng(1).uniform(-8, 8, 32).astype(np.float32)
ROUNDED = (bf16(SINGLES) << 16).view(np.float32)
SIGNED = BITS.view(np.int32)
LOAD, STORE = "ld.global.b32 %r5, [%rd3];", "st.global.b32 [%rd3], %r6;"
SINGLE = "ld.global.f32 %f1, [%rd3];"
TO_BF16 = f"{SINGLE} cvt.rn.bf16.f32 %h1, %f1;"
FROM_16 = "cvt.u32.u16 %r6, %h2;"
WIDE = "cvt.u64.u32 %rd5, %r5; shl.b64 %rd5, %rd5, 17; or.b64 %rd5, %rd5, 12345; "
WIDTHS = [(int(each) << 17) | 12345 for each in BITS]
INSTRUCTIONS = {
    "cvt.rn.bf16.f32": (SINGLES, f"{TO_BF16} mov.b16 %h2, %h1; {FROM_16}", bf16(SINGLES)),
    "cvt.rz.bf16.f32": (SINGLES, f"{SINGLE} cvt.rz.bf16.f32 %h2, %f1; {FROM_16}", SINGLES.view(np.uint32) >> 16),
    "cvt.f32.bf16": (SINGLES, f"{TO_BF16} cvt.f32.bf16 %f2, %h1; mov.b32 %r6, %f2;", ROUNDED),
    "add.rn.bf16": (SINGLES, f"{TO_BF16} add.rn.bf16 %h2, %h1, 0x3F80; {FROM_16}", bf16(ROUNDED + np.float32(1))),
    "fma.rn.bf16": (
        SINGLES, f"{TO_BF16} fma.rn.bf16 %h2, %h1, %h1, %h1; {FROM_16}",
        bf16(ROUNDED.astype(float) * ROUNDED + ROUNDED),
    ),
    "fma.rn.bf16x2": (
        SINGLES, f"{SINGLE} cvt.rn.bf16x2.f32 %r5, %f1, 0f40000000; fma.rn.bf16x2 %r6, %r5, %r5, %r5;",
        bf16(ROUNDED.astype(float) * ROUNDED + ROUNDED) << 16 | int(bf16(np.float32([6]))[0]),
    ),
    "max.bf16x2": (
        SINGLES, f"{SINGLE} cvt.rn.bf16x2.f32 %r5, %f1, 0f40000000; mov.b32 %r7, 0x3F803F80; max.bf16x2 %r6, %r5, %r7;",
        bf16(np.maximum(SINGLES, 1)) << 16 | 0x4000,
    ),
    "setp.gt.bf16": (
        SINGLES, f"{TO_BF16} setp.gt.bf16 %p1, %h1, 0x3F80; selp.b32 %r6, 7, 9, %p1;", np.where(ROUNDED > 1, 7, 9),
    ),
    "cvt.rn.tf32.f32": (
        SINGLES, f"{SINGLE} cvt.rna.tf32.f32 %r6, %f1;", (SINGLES.view(np.uint32) + 0x1000) & 0xFFFFE000,
    ),
    "cvt.sat": (SIGNED, f"{LOAD} cvt.sat.u8.s32 %h2, %r5; {FROM_16}", np.clip(SIGNED, 0, 255)),
    "cvt.rz.f32.s32": (
        SIGNED, f"{LOAD} cvt.rz.f32.s32 %f1, %r5; mov.b32 %r6, %f1;",
        np.ldexp(np.trunc(np.ldexp(np.frexp(SIGNED)[0], 24)), np.frexp(SIGNED)[1] - 24).astype(np.float32),
    ),
    "bfi.b64": (
        BITS, f"{LOAD} {WIDE} bfi.b64 %rd6, %rd5, %rd1, 20, 30; shr.u64 %rd6, %rd6, 20; cvt.u32.u64 %r6, %rd6;"
        " and.b32 %r6, %r6, 0x3FFFFFFF;", [each % 2**30 for each in WIDTHS],
    ),
    "bfe.s64": (
        BITS, f"{LOAD} {WIDE} bfe.s64 %rd6, %rd5, 30, 12; cvt.u32.u64 %r6, %rd6;",
        [((each >> 30) % 2**12 ^ 2**11) - 2**11 for each in WIDTHS],
    ),
    "bmsk": (
        np.arange(32), f"{LOAD} bmsk.clamp.b32 %r6, %r5, 9;", [(2**9 - 1 << lane) % 2**32 for lane in range(32)],
    ),
    "bmsk of nothing": (np.arange(31, 63), f"{LOAD} bmsk.clamp.b32 %r6, %r5, 300;", [2**31, *[0] * 31]),
    "redux.add": (BITS, f"{LOAD} redux.sync.add.s32 %r6, %r5, -1;", [int(BITS.sum(dtype=np.uint64)) % 2**32] * 32),
    "redux.min": (SIGNED, f"{LOAD} redux.sync.min.s32 %r6, %r5, -1;", [SIGNED.min()] * 32),
    "redux.xor": (BITS, f"{LOAD} redux.sync.xor.b32 %r6, %r5, -1;", [np.bitwise_xor.reduce(BITS)] * 32),
    "match.any": (
        np.arange(32) % 3, f"{LOAD} match.any.sync.b32 %r6, %r5, -1;",
        [sum(1 << other for other in range(32) if other % 3 == lane % 3) for lane in range(32)],
    ),
    "match.all": (np.full(32, 3), f"{LOAD} match.all.sync.b32 %r6|%p1, %r5, -1;", [-1] * 32),
    "match.all of different values": (np.arange(32), f"{LOAD} match.all.sync.b32 %r6, %r5, -1;", [0] * 32),
    "mul.hi.s64": (
        BITS, f"{LOAD} {WIDE} neg.s64 %rd6, %rd5; mul.hi.s64 %rd7, %rd5, %rd6; cvt.u32.u64 %r6, %rd7;",
        [(each * -each >> 64) % 2**32 for each in WIDTHS],
    ),
    "dp4a": (
        BITS, f"{LOAD} dp4a.u32.s32 %r6, %r5, 0x01FF0201, 5;",
        5 + BITS.view(np.uint8).reshape(32, 4).astype(int) @ [1, 2, -1, 1],
    ),
    "a branch that skips": (
        SIGNED, f"{LOAD} mov.u32 %r6, 7; setp.lt.s32 %p1, %r5, 0; @%p1 bra $E; mov.u32 %r7, 3; add.u32 %r6, %r1, %r7;"
        " setp.lt.u32 %p2, %r1, 9; @!%p2 bra $E; ld.global.u32 %r8, [%rd3]; and.b32 %r8, %r8, 1; add.u32 %r6, %r6, %r8;"
        " $E:", np.where(SIGNED < 0, 7, LANE + 3 + np.where(LANE < 9, SIGNED & 1, 0)),
    ),
    "a branch that skips in a loop": (
        BITS, "mov.u32 %r6, 0; mov.u32 %r7, 0; $L: and.b32 %r8, %r7, 1; setp.ne.u32 %p1, %r8, 0; @%p1 bra $E;"
        " add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r7, 2; @%p2 mov.u32 %r9, %r1; mov.u32 %r6, %r9; $E:"
        " add.u32 %r7, %r7, 1; setp.lt.u32 %p1, %r7, 7; @%p1 bra $L;", LANE + 3,
    ),
    "globaltimer": (
        BITS, "mov.u64 %rd5, %globaltimer; mov.u64 %rd6, %globaltimer; setp.gt.u64 %p1, %rd6, %rd5;"
        "selp.b32 %r6, 1, 0, %p1;", [1] * 32,
    ),
    "bar.red.and": (BITS, "setp.ne.u32 %p1, %r1, 5; bar.red.and.pred %p2, 0, %p1; selp.b32 %r6, 1, 0, %p2;", [0] * 32),
    "bar.red.or": (BITS, "setp.eq.u32 %p1, %r1, 5; bar.red.or.pred %p2, 0, %p1; selp.b32 %r6, 1, 0, %p2;", [1] * 32),
    "a shuffle of some": (
        BITS, "mov.u32 %r6, 3; setp.lt.u32 %p1, %r1, 8; @%p1 shfl.sync.idx.b32 %r6, %r1, 5, 31, 255;",
        [5] * 8 + [3] * 24,
    ),
    "tex.2d": (
        SINGLES, "mov.f32 %f1, 0f3F800000; tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd1, {%f1, %f1}];"
        "tex.2d.v4.f32.f32 {%f6, %f7, %f8, %f3}, [%rd1, {%f1, %f1}]; setp.eq.f32 %p1, %f5, %f3;"
        "selp.b32 %r6, 1, 0, %p1;",
        [1] * 32,
    ),
    "atom.cas.b16": (
        np.zeros(32, int), "atom.global.cas.b16 %h2, [%rd1], 0, 7; setp.ne.u32 %p1, %r1, 3; @%p1 bra $E;"
        "ld.global.u16 %r6, [%rd1]; bra $S; $E: mov.u32 %r6, 0; $S:", [0, 0, 0, 7] + [0] * 28,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INSTRUCTIONS)
def test_instructions_compute_what_ptx_says(name: str) -> None:
    values, body, right = INSTRUCTIONS[name]
    got = found(f"{body} {STORE}", values.astype(values.dtype if values.dtype.itemsize == 4 else np.int32))
    right = np.asarray(right)
    if right.dtype == np.float32:
        assert list(got.view(np.float32)) == list(right)
    else:
        assert list(got.view(np.uint32).astype(int)) == [int(each) % 2**32 for each in right]


FUNCTIONS = (
    HEAD
    + """.extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 vprintf_param_1);
.extern .func __assertfail (.param .b64 a0, .param .b64 a1, .param .b32 a2, .param .b64 a3, .param .b64 a4);
.global .align 1 .b8 $str[6] = {110, 32, 62, 32, 48};
.func (.param .b32 func_retval0) twice(.param .b32 twice_param_0)
{
.reg .pred %p<2>; .reg .b32 %r<4>;
ld.param.u32 %r1, [twice_param_0]; setp.gt.u32 %p1, %r1, 7; @%p1 bra $L0;
add.u32 %r2, %r1, %r1; st.param.b32 [func_retval0+0], %r2; ret;
$L0: st.param.b32 [func_retval0+0], %r1;
ret;
}
"""
)
CALL = """{ .param .b32 param0; st.param.b32 [param0+0], %r1; .param .b32 retval0; call.uni (retval0), NAME, (param0);
  ld.param.b32 %r6, [retval0+0]; }"""
PRINT = """{ .param .b64 param0; .param .b64 param1; st.param.b64 [param0], %rd1; st.param.b64 [param1], 0;
  .param .b32 retval0; call.uni (retval0), vprintf, (param0, param1); }"""
FAIL = """{ .param .b64 param0; mov.u64 %rd5, $str; cvta.global.u64 %rd5, %rd5; st.param.b64 [param0+0], %rd5;
  call.uni __assertfail, (param0, param0, param0, param0, param0); }"""


def test_functions_are_called_and_what_is_printed_is_nowhere() -> None:
    call = CALL.replace("NAME", "twice")
    body = f"{call} mov.u32 %r7, %r6; {call} {PRINT} add.u32 %r6, %r6, %r7; {STORE}"
    right = [2 * (2 * each if each <= 7 else each) for each in range(32)]
    assert list(found(body, np.zeros(32, np.int32), head=FUNCTIONS)) == right
    failed = run(f"setp.ne.u32 %p1, %r1, 9; @%p1 bra $E; {FAIL} $E:", np.zeros(32, np.int32), head=FUNCTIONS)
    assert (failed.status, failed.message) == ("crash", "a thread failed its assertion n > 0")


G, P = LANE // 4, LANE % 4
PRODUCTS = {
    # rows and columns of the elements of A and B, types, registers of A, B and C, size: PTX ISA, "Matrix Fragments"
    "m16n8k8.row.col.f32.tf32.tf32.f32": (
        [(G + 8 * (i % 2), P + 4 * (i // 2)) for i in range(4)], [(P + 4 * i, G) for i in range(2)], np.float32, 4,
        (16, 8, 8),
    ),
    "m16n8k8.row.col.f32.bf16.bf16.f32": (
        [(G + 8 * (i // 2), 2 * P + i % 2) for i in range(4)], [(2 * P + i, G) for i in range(2)], np.uint16, 4,
        (16, 8, 8),
    ),
    "m16n8k32.row.col.s32.s8.s8.s32": (
        [(G + 8 * (i // 4 % 2), 4 * P + i % 4 + 16 * (i // 8)) for i in range(16)],
        [(4 * P + i % 4 + 16 * (i // 4), G) for i in range(8)], np.int8, 4, (16, 8, 32),
    ),
    "m8n8k4.row.col.f64.f64.f64.f64": ([(G, P)], [(P, G)], np.float64, 2, (8, 8, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_matrices_of_other_types_are_multiplied(name: str) -> None:
    a_at, b_at, dtype, outputs, (m, n, k) = PRODUCTS[name]
    random = np.random.default_rng(3)
    a, b, c = (random.integers(-8, 8, size).astype(float) for size in ((m, k), (k, n), (m, n)))
    c_at = [(G + 8 * (i // 2), 2 * P + i % 2) for i in range(outputs)]

    def packed(matrix: np.ndarray, at: list, kind: type) -> np.ndarray:
        values = np.stack([matrix[place] for place in at], axis=-1)
        return ((bf16(values) if kind == np.uint16 else values).astype(kind)).view(np.uint8).reshape(32, -1)

    to = {"s32": np.int32, "f64": np.float64}.get(name.rpartition(".")[2], np.float32)
    rows = np.concatenate([packed(a, a_at, dtype), packed(b, b_at, dtype), packed(c, c_at, to)], axis=1)
    size = 8 if dtype == np.float64 else 4
    letter, width = ("%rd", "b64") if size == 8 else ("%r", "b32")
    registers = [f"{letter}{5 + i}" for i in range(rows.shape[1] // size)]
    cut = [len(a_at) * np.dtype(dtype).itemsize // size, len(b_at) * np.dtype(dtype).itemsize // size]
    groups = [registers[: cut[0]], registers[cut[0] : sum(cut)], registers[sum(cut) :]]
    loads = "".join(f"ld.global.{width} {one}, [%rd4+{i * size}];" for i, one in enumerate(registers))
    stores = "".join(f"st.global.{width} [%rd4+{i * size}], {one};" for i, one in enumerate(groups[2]))
    braces = ", ".join(f"{{{', '.join(each)}}}" for each in (groups[2], *groups))
    row = f"mul.wide.u32 %rd4, %r1, {rows.shape[1]}; add.s64 %rd4, %rd4, %rd1;"
    body = f"{row} {loads} mma.sync.aligned.{name} {braces}; {stores}"
    got = found(body, rows)[:, : outputs * np.dtype(to).itemsize].copy().view(to)
    right = a @ b + c
    for i, place in enumerate(c_at):
        assert list(got[:, i]) == list(right[place])


def test_fragments_are_loaded_multiplied_and_stored() -> None:
    random = np.random.default_rng(4)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    a_of, b_of, c_of = (", ".join(f"%r{start + i}" for i in range(8)) for start in (5, 20, 30))
    zero = "".join(f"mov.b32 %r{30 + i}, 0f40000000;" for i in range(8))
    body = f""".reg .b32 %r<40>; {zero} mov.u32 %r4, 16; add.s64 %rd5, %rd1, 512; add.s64 %rd6, %rd1, 1024;
        wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {{{a_of}}}, [%rd1], %r4;
        wmma.load.b.sync.aligned.col.m16n16k16.f16 {{{b_of}}}, [%rd5], %r4;
        wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {{{c_of}}}, {{{a_of}}}, {{{b_of}}}, {{{c_of}}};
        wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd6], {{{c_of}}}, %r4;"""
    memory = np.concatenate([a.ravel(), b.ravel(), np.zeros(512, np.float16)])
    got = found(body, memory)[512:].copy().view(np.float32).reshape(16, 16)
    assert np.array_equal(got, a.astype(float) @ b.T.astype(float) + 2)


def test_fragments_of_doubles_are_multiplied_too() -> None:
    a, b = np.random.default_rng(5).uniform(-1, 1, (2, 8, 4))
    body = """mov.u32 %r4, 4; mov.u32 %r5, 8; add.s64 %rd5, %rd1, 256; add.s64 %rd6, %rd1, 512;
        wmma.load.a.sync.aligned.row.m8n8k4.global.f64 {%fd1}, [%rd1], %r4; mov.f64 %fd3, 0d0000000000000000;
        wmma.load.b.sync.aligned.col.m8n8k4.global.f64 {%fd2}, [%rd5], %r4; mov.f64 %fd4, %fd3;
        wmma.mma.sync.aligned.row.col.m8n8k4.rn.f64.f64.f64.f64 {%fd3, %fd4}, {%fd1}, {%fd2}, {%fd3, %fd4};
        wmma.store.d.sync.aligned.row.m8n8k4.global.f64 [%rd6], {%fd3, %fd4}, %r5;"""
    got = found(body, np.concatenate([a.ravel(), b.ravel(), np.zeros(64)]))[64:].reshape(8, 8)
    assert np.allclose(got, a @ b.T, rtol=0, atol=1e-15)


def test_lanes_that_wait_for_each_other_meet_though_they_come_one_after_the_other() -> None:
    body = """setp.lt.u32 %p1, %r1, 9; @%p1 bra $A; add.s32 %r5, %r1, 100; bra $B; $A: add.s32 %r5, %r1, 200;
        $B: shfl.sync.bfly.b32 %r6, %r5, 16, 31, -1; st.global.u32 [%rd3], %r6;"""
    each = np.arange(32) ^ 16
    for order in (FORWARD, REVERSE, chance(1), chance(2)):
        outcome = run(body, np.zeros(32, np.int32), order=order)
        assert list(outcome.buffers["m"]) == list(np.where(each < 9, 200, 100) + each)


def test_votes_and_barriers_that_count() -> None:
    body = """and.b32 %r5, %r1, 3; setp.eq.s32 %p1, %r5, 1; vote.sync.ballot.b32 %r6, %p1, -1;
        bar.red.popc.u32 %r7, 0, %p1; popc.b32 %r8, %r6; mul.lo.s32 %r7, %r7, 1000; add.s32 %r8, %r8, %r7;
        st.global.u32 [%rd3], %r8;"""
    assert set(found(body, np.zeros(128, np.int32), grid=2, block=64)) == {16008}


def test_atomic_operations_are_made_one_after_the_other() -> None:
    body = "atom.global.add.u32 %r5, [%rd1], 2; red.global.max.u32 [%rd1+4], %r5; atom.global.inc.u32 %r6, [%rd1+8], 6;"
    memory = found(body, np.zeros(64, np.uint32), grid=2)
    assert list(memory[:3]) == [128, 126, 64 % 7]


def test_copies_are_made_as_late_as_they_may_be() -> None:
    copy = "shl.b32 %r5, %r1, 2; mov.u32 %r6, held; add.s32 %r5, %r5, %r6; cp.async.ca.shared.global [%r5], [%rd3], 4;"
    read = "ld.shared.u32 %r7, [%r5]; st.global.u32 [%rd3], %r7;"
    values = np.arange(32, dtype=np.int32)
    assert list(found(f"{copy} cp.async.wait_all; {read}", values)) == list(values)
    assert list(found(f"{copy} {read}", values)) != list(values)


STOPS = [
    ("st.global.u32 [%rd3+4], %r1;", "crash", "a write outside of all buffers"),
    ("ld.global.u32 %r5, [%rd1+2];", "crash", "no multiple of 4"),
    ("ld.shared.u32 %r5, [held+256];", "crash", "a read outside of the 256 bytes of shared memory"),
    ("trap;", "crash", "trap"),
    ("$L: bra $L;", "hang", "does not end"),
    (
        "setp.lt.u32 %p1, %r1, 9; @%p1 bra $A; bar.sync 0; bra $B; $A: bar.sync 0; $B:",
        "mismatched-barrier",
        "different",
    ),
    ("setp.lt.u32 %p1, %r1, 9; @%p1 bra $A; bar.sync 0; bra $B; $A: bar.warp.sync -1; $B:", "deadlock", "never come"),
    (
        "setp.gt.u32 %p1, %r1, 9; @%p1 ret; wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%f1, %f2, %f3, "
        "%f4, %f5, %f6, %f7, %f8};",
        "crash",
        "have returned before",
    ),
]


@pytest.mark.parametrize(("body", "status", "message"), STOPS)
def test_what_stops_a_launch_is_told_with_its_line(body: str, status: str, message: str) -> None:
    outcome = run(body, np.zeros(32, np.int32), limit_s=1)
    assert outcome.status == status
    assert message in outcome.message
    assert outcome.line is not None
    assert outcome.line > 4


def test_other_processes_find_what_this_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{HEAD}.visible .entry k(.param .u64 k_param_0)\n{{\n{DECLARED}st.global.u32 [%rd3], %r4; ret;\n}}\n"
    launches = [CpuLaunch("k", (grid, 1, 1), (32, 1, 1), (Pointer("m"),)) for grid in (1, 2, 3)]
    sequences = [([each], order) for order in (FORWARD, REVERSE) for each in launches]
    memory = {"m": np.full(96, -1, np.int32)}
    monkeypatch.setattr(interpreter, "_ALONE_S", -1.0)
    with worker_pool(1, interpreter.begin, text, "k.ptx") as pool:
        found = list(PtxProgram(text, "k.ptx", pool).run_all(sequences, memory))
        assert pool._processes
    for outcome, (launch, *_) in zip(found, (each for each, _ in sequences), strict=True):
        size = 32 * launch.grid[0]
        assert list(outcome.buffers["m"]) == [*range(size), *[-1] * (96 - size)]


def test_threads_that_have_ended_are_not_waited_for() -> None:
    body = "setp.gt.u32 %p1, %r1, 9; @%p1 ret; bar.sync 0; bar.warp.sync -1; st.global.u32 [%rd3], 5;"
    assert list(found(body, np.zeros(32, np.int32))) == [5] * 10 + [0] * 22


def test_a_race_shows_between_the_orders() -> None:
    body = "st.shared.u32 [held], %r4; ld.shared.u32 %r5, [held]; st.global.u32 [%rd1], %r5;"
    seen = {int(run(body, np.zeros(64, np.int32), order=each, block=64).buffers["m"][0])
            for each in (FORWARD, REVERSE, chance(1), chance(2))}  # fmt: skip
    assert len(seen) > 1


@pytest.mark.parametrize(
    "unknown",
    ["mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.s32 {%f1}, {%r1}, {%r2}, {%f1};", "sqrt.rzi.f32 %f1, %f2;",
     "cvt.rn.e2m1x2.f32 %h1, %f1, %f2;", "mov.u32 %r5, %clusterid.x;", "div.rz.f32 %f1, %f1, %f2;", "call helper;",
     "mad.lo.cc.u32 %r5, %r5, %r5, %r5;", "addc.u32 %r5, %r5, %r5;", "add.sat.s32 %r5, %r5, %r5;",
     "cvt.rz.f32.s64 %f1, %rd5;", "lop3.or.b32 %r7|%p1, %r5, 1, 0, 0xC0, 0;",
     "cvt.rn.satfinite.f16x2.f32 %r5, %f1, %f2;", "bra $nowhere;", "suq.width.b32 %r5, [%rd1];",
     "wgmma.fence.sync.aligned;"],
)  # fmt: skip
def test_an_unknown_instruction_is_an_error_with_its_name(unknown: str) -> None:
    with pytest.raises(InputError, match=r"k\.ptx:11: the interpreter does not know the instruction") as error:
        run(unknown, np.zeros(32, np.int32))
    assert unknown.partition(" ")[0].rstrip(";") in error.value.message
    assert (": " in error.value.message.partition("the instruction ")[2]) == unknown.startswith(("suq", "wgmma"))


def test_arguments_and_blocks_are_those_of_the_kernel() -> None:
    text = f"{HEAD}.visible .entry k(.param .u64 k_param_0)\n.reqntid 64\n{{\nret;\n}}\n"
    program = PtxProgram(text, "k.ptx")

    def launched(symbol: str, threads: int, *arguments: Pointer | Scalar) -> None:
        launch = CpuLaunch(symbol, (1, 1, 1), (threads, 1, 1), arguments)
        next(program.run_all([([launch], FORWARD)], {"m": np.zeros(4, np.int32)}))

    launched("k", 64, Pointer("m"))
    for wrong, said in (
        (("k", 32, Pointer("m")), r"blocks of \(64, 1, 1\)"),
        (("k", 64), "takes 1 arguments"),
        (("k", 64, Scalar(struct.pack("<i", 3))), "argument 0 has 4 bytes"),
    ):
        with pytest.raises(InputError, match=said):
            launched(*wrong)

"""The interpreter of PTX: its arithmetic against exact numbers, its memory, and what stops a launch."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from edgetune.errors import InputError
from edgetune.stages.elastic.ptx import arithmetic
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.shim.run import FORWARD, REVERSE, ExecutionOrder, ShimLaunch, ShimResult, chance
from edgetune.stages.elastic.work import Pointer, Scalar

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
) -> ShimResult:
    """Run a kernel on one buffer; register rd3 has the address of its thread's four bytes."""
    text = f"{HEAD}.visible .entry k(.param .u64 k_param_0)\n{{\n{DECLARED}{body}\nret;\n}}\n"
    launch = ShimLaunch("k", (grid, 1, 1), (block, 1, 1), (Pointer("m"),))
    return next(PtxProgram.of(text, "k.ptx").run_all([([launch], order)], {"m": memory}, limit_s))


def found(body: str, values: np.ndarray, **how: int) -> np.ndarray:
    outcome = run(body, values, **how)
    assert (outcome.status, outcome.message) == ("ok", "")
    return outcome.buffers["m"]


def float_of(value: Fraction, dtype: type) -> np.floating:
    """Return the nearest number of a type, by bisection over its bits."""
    bits = np.dtype(dtype).itemsize * 8
    whole = np.dtype(f"i{bits // 8}").type

    def at(place: int) -> np.floating:
        return np.frombuffer(whole(place).tobytes(), dtype)[0]

    low, high = 0, int(np.frombuffer(np.array([np.finfo(dtype).max]).tobytes(), whole)[0])
    magnitude = abs(value)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(float(at(middle))) <= magnitude else (low, middle)
    below, above = (magnitude - Fraction(float(at(low)))), (Fraction(float(at(high))) - magnitude)
    nearest = low if below < above or (below == above and low % 2 == 0) else high
    return at(nearest) if value >= 0 else -at(nearest)


singles = some.floats(-(2.0**50), 2.0**50, width=32)


@given(singles, singles, singles)
def test_fma_of_singles_is_rounded_once(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = arithmetic.fma(*(np.float32([each]) for each in (a, b, c)), np.dtype("f4"))[0]
    assert got == float_of(exact, np.float32)


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


@given(some.integers(-(2**31), 2**31 - 1), some.integers(-(2**31), 2**31 - 1))
def test_division_goes_to_zero_and_the_remainder_has_the_sign_of_the_dividend(a: int, b: int) -> None:
    left, right = np.int32([a]), np.int32([b])
    if b and (a, b) != (-(2**31), -1):
        assert arithmetic.divided(left, right)[0] == math.trunc(Fraction(a, b))
        assert arithmetic.remainder(left, right)[0] == math.fmod(a, b)
    assert arithmetic.high_half(left, right, np.dtype("i4"))[0] == (a * b) >> 32


@given(some.integers(0, 2**32 - 1), some.integers(0, 40))
def test_words_of_bits(a: int, by: int) -> None:
    value, amount = np.uint32([a]), np.uint32([by])
    assert arithmetic.set_bits(value)[0] == a.bit_count()
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
]


@pytest.mark.parametrize(("body", "status", "message"), STOPS)
def test_what_stops_a_launch_is_told_with_its_line(body: str, status: str, message: str) -> None:
    outcome = run(body, np.zeros(32, np.int32), limit_s=1)
    assert outcome.status == status
    assert message in outcome.message
    assert outcome.line is not None
    assert outcome.line > 4


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
    ["mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "sqrt.rz.f32 %f1, %f2;",
     "cvt.rn.bf16.f32 %h1, %f1;", "mov.u32 %r5, %dynamic_smem_size;", "add.rz.f32 %f1, %f1, %f2;"],
)  # fmt: skip
def test_an_unknown_instruction_is_an_error_with_its_name(unknown: str) -> None:
    with pytest.raises(InputError, match=r"k\.ptx:11: the interpreter does not know the instruction") as error:
        run(unknown, np.zeros(32, np.int32))
    assert unknown.partition(" ")[0] in error.value.message


def test_arguments_and_blocks_are_those_of_the_kernel() -> None:
    text = f"{HEAD}.visible .entry k(.param .u64 k_param_0)\n.reqntid 64\n{{\nret;\n}}\n"
    program = PtxProgram.of(text, "k.ptx")

    def launched(symbol: str, threads: int, *arguments: Pointer | Scalar) -> None:
        launch = ShimLaunch(symbol, (1, 1, 1), (threads, 1, 1), arguments)
        next(program.run_all([([launch], FORWARD)], {"m": np.zeros(4, np.int32)}))

    launched("k", 64, Pointer("m"))
    for wrong, said in (
        (("other", 64, Pointer("m")), "no kernel 'other'"),
        (("k", 32, Pointer("m")), r"blocks of \(64, 1, 1\)"),
        (("k", 64), "takes 1 arguments"),
        (("k", 64, Pointer("x")), "no buffer 'x'"),
        (("k", 64, Scalar(struct.pack("<i", 3))), "argument 0 has 4 bytes"),
    ):
        with pytest.raises(InputError, match=said):
            launched(*wrong)

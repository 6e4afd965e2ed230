"""What kernels do on the CPU: threads, barriers, warps, atomics, and everything that can go wrong."""

from __future__ import annotations

import platform
import struct

import numpy as np
import pytest

from edgetune.errors import InputError
from edgetune.stages.elastic.shim import run as module
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import FORWARD, REVERSE, ExecutionOrder, ShimLaunch, ShimResult, chance
from edgetune.stages.elastic.work import Pointer, Scalar

SCHEDULES = (FORWARD, REVERSE, chance(1), chance(2))
X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="other CPUs divide by zero without a word")
Dim = tuple[int, int, int]


def run(
    body: str,
    *,
    out: np.ndarray,
    grid: Dim = (1, 1, 1),
    block: Dim,
    schedule: ExecutionOrder = FORWARD,
    shared: int = 0,
) -> ShimResult:
    built = build(f"__global__ void k({_type(out)} *out) {{\n{body}\n}}\n", "mine.cu")
    return built.run([ShimLaunch("k", grid, block, (Pointer("out"),), shared)], {"out": out}, schedule, limit_s=1)


def _type(array: np.ndarray) -> str:
    return {"i4": "int", "u4": "unsigned int", "f4": "float", "f8": "double", "u8": "unsigned long long"}[
        array.dtype.str[1:]
    ]


def everywhere(body: str, *, out: np.ndarray, block: Dim, grid: Dim = (1, 1, 1), shared: int = 0) -> np.ndarray:
    """Run under every schedule; all must agree."""
    built = build(f"__global__ void k({_type(out)} *out) {{\n{body}\n}}\n", "mine.cu")
    launch = ShimLaunch("k", grid, block, (Pointer("out"),), shared)
    outcomes = list(built.run_all([([launch], schedule) for schedule in SCHEDULES], {"out": out}))
    assert [outcome.message for outcome in outcomes] == [""] * len(SCHEDULES)
    for outcome in outcomes[1:]:
        np.testing.assert_array_equal(outcome.buffers["out"], outcomes[0].buffers["out"])
    return outcomes[0].buffers["out"]


def test_every_thread_of_every_block_runs_once_and_knows_its_place() -> None:
    out = np.zeros((2, 3, 2, 2, 3, 4), np.int32)
    body = """int b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    int t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    atomicAdd(&out[b * 24 + t], 1 + b * 24 + t);"""
    got = everywhere(body, out=out, grid=(2, 3, 2), block=(4, 3, 2))
    np.testing.assert_array_equal(got.ravel(), np.arange(1, 289))


def test_a_barrier_shows_each_thread_what_all_others_wrote() -> None:
    body = """__shared__ int held[64];
    held[threadIdx.x] = threadIdx.x * blockIdx.x;
    __syncthreads();
    out[blockIdx.x * 64 + threadIdx.x] = held[63 - threadIdx.x];"""
    got = everywhere(body, out=np.zeros((3, 64), np.int32), grid=(3, 1, 1), block=(64, 1, 1))
    np.testing.assert_array_equal(got, np.arange(3)[:, None] * np.arange(64)[::-1])


def test_dynamic_shared_memory_of_two_dimensions() -> None:
    body = """extern __shared__ int held[][4];
    held[threadIdx.y][threadIdx.x] = threadIdx.x * 10 + threadIdx.y;
    __syncthreads();
    out[threadIdx.y * 4 + threadIdx.x] = held[threadIdx.x][threadIdx.y];"""
    got = everywhere(body, out=np.zeros((4, 4), np.int32), block=(4, 4, 1), shared=64)
    np.testing.assert_array_equal(got, np.arange(4)[:, None] * 10 + np.arange(4))


def test_threads_that_returned_are_not_waited_for() -> None:
    body = """if (threadIdx.x >= 5) return;
    __shared__ int held[5];
    held[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = held[4 - threadIdx.x];"""
    np.testing.assert_array_equal(everywhere(body, out=np.zeros(5, np.int32), block=(32, 1, 1)), [4, 3, 2, 1, 0])


def test_barriers_that_vote() -> None:
    body = """int few = __syncthreads_count(threadIdx.x % 3 == 0);
    int all = __syncthreads_and(threadIdx.x < 40), most = __syncthreads_and(threadIdx.x < 39);
    int one = __syncthreads_or(threadIdx.x == 7), none = __syncthreads_or(threadIdx.x == 70);
    out[threadIdx.x] = few * 10000 + all * 1000 + most * 100 + one * 10 + none;"""
    np.testing.assert_array_equal(everywhere(body, out=np.zeros(40, np.int32), block=(40, 1, 1)), [141010] * 40)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("__shfl_sync(~0u, v, 5)", lambda lane: np.full_like(lane, 5)),
        ("__shfl_sync(~0u, v, 5, 8)", lambda lane: lane // 8 * 8 + 5),
        ("__shfl_sync(~0u, v, 9, 8)", lambda lane: lane // 8 * 8 + 1),
        ("__shfl_up_sync(~0u, v, 3)", lambda lane: np.where(lane < 3, lane, lane - 3)),
        ("__shfl_up_sync(~0u, v, 3, 16)", lambda lane: np.where(lane % 16 < 3, lane, lane - 3)),
        ("__shfl_down_sync(~0u, v, 2)", lambda lane: np.where(lane > 29, lane, lane + 2)),
        ("__shfl_down_sync(~0u, v, 2, 4)", lambda lane: np.where(lane % 4 > 1, lane, lane + 2)),
        ("__shfl_xor_sync(~0u, v, 1)", lambda lane: lane ^ 1),
        ("__shfl_xor_sync(~0u, v, 8, 8)", lambda lane: np.where(lane & 8, lane ^ 8, lane)),
        ("__shfl_xor(v, 3)", lambda lane: lane ^ 3),
        ("__shfl_down(v, 4)", lambda lane: np.where(lane > 27, lane, lane + 4)),
    ],
)
def test_shuffles_take_the_value_of_another_lane(call: str, expected) -> None:
    body = f"int v = threadIdx.x; out[threadIdx.x] = {call};"
    got = everywhere(body, out=np.zeros(64, np.int32), block=(64, 1, 1))
    lane = np.arange(32)
    np.testing.assert_array_equal(got, [*expected(lane), *(expected(lane) + 32)])


def test_shuffles_move_doubles_and_lanes_of_part_of_a_warp() -> None:
    body = """double v = threadIdx.x * 0.5;
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_xor_sync(0xffffu, v, 1);
    else out[threadIdx.x] = __shfl_xor_sync(0xffff0000u, -v, 2);"""
    lane = np.arange(32)
    expected = np.where(lane < 16, (lane ^ 1) * 0.5, -(lane ^ 2) * 0.5)
    np.testing.assert_array_equal(everywhere(body, out=np.zeros(32), block=(32, 1, 1)), expected)


def test_votes_of_a_warp() -> None:
    body = """unsigned lane = threadIdx.x & 31;
    unsigned odd = __ballot_sync(~0u, lane & 1);
    unsigned same = __match_any_sync(~0u, lane / 8);
    int all = 0;
    __match_all_sync(~0u, threadIdx.x / 32, &all);
    unsigned total = __reduce_add_sync(~0u, lane), most = __reduce_max_sync(~0u, lane);
    out[threadIdx.x] = (odd == 0xaaaaaaaau) + 2 * (same == 0xffu << lane / 8 * 8) + 4 * __any_sync(~0u, lane == 31)
        + 8 * __all_sync(~0u, lane < 32) + 16 * __any_sync(~0u, lane == 32) + 32 * __all_sync(~0u, lane < 31)
        + 64 * all + 128 * (total == 496) + 256 * (most == 31);"""
    got = everywhere(body, out=np.zeros(64, np.uint32), block=(64, 1, 1))
    np.testing.assert_array_equal(got, [1 + 2 + 4 + 8 + 64 + 128 + 256] * 64)


def test_lanes_meet_at_different_calls_of_syncwarp() -> None:
    body = """__shared__ volatile int held[32];
    if (threadIdx.x < 16) { held[threadIdx.x] = threadIdx.x; __syncwarp(); }
    else { held[threadIdx.x] = -1; __syncwarp(); }
    out[threadIdx.x] = held[threadIdx.x ^ 16];"""
    got = everywhere(body, out=np.zeros(32, np.int32), block=(32, 1, 1))
    np.testing.assert_array_equal(got, [-1] * 16 + list(range(16)))


def test_atomics_return_what_was_there() -> None:
    body = """int turn = atomicAdd(&out[0], 1);
    atomicSub(&out[1], 2); atomicMax(&out[2], (int)threadIdx.x); atomicMin(&out[3], -(int)threadIdx.x);
    atomicOr(&out[4], 1 << threadIdx.x); atomicXor(&out[5], 1 << threadIdx.x); atomicAnd(&out[6], ~(1 << threadIdx.x));
    atomicExch(&out[7], 5); atomicCAS(&out[8], 0, 9); atomicAdd(&out[9], turn);
    atomicInc((unsigned *)&out[10], 4u); atomicDec((unsigned *)&out[11], 4u);"""
    start = np.zeros(12, np.int32)
    start[6] = 0xFFF
    got = everywhere(body, out=start, block=(8, 1, 1))
    np.testing.assert_array_equal(got, [8, -16, 7, -7, 255, 255, 0xF00, 5, 9, 28, 3, 2])


def test_intrinsics() -> None:
    body = """out[0] = __popc(0xf0f0u) == 8; out[1] = __clz(1) == 31 && __clz(0) == 32; out[2] = __ffs(8) == 4;
    out[3] = __brev(1u) == 0x80000000u; out[4] = __umulhi(0x80000000u, 4u) == 2;
    out[5] = __float_as_int(1.0f) == 0x3f800000;
    out[6] = rsqrtf(4.0f) == 0.5f; out[7] = __saturatef(3.0f) == 1.0f;
    out[8] = max(3, 4u) == 4u && min(2.0f, 1.0f) == 1.0f;
    out[9] = __funnelshift_l(0x80000000u, 1u, 1u) == 3u; out[10] = __float2int_rn(2.5f) == 2;
    out[11] = __expf(0.0f) == 1.0f;
    int4 v = make_int4(1, 2, 3, 4);
    out[12] = v.w == 4 && sizeof(float3) == 12 && alignof(float4) == 16 && warpSize == 32;
    dim3 d(2); out[13] = d.y == 1 && fdividef(1.0f, 2.0f) == 0.5f && __mul24(-3, 5) == -15;
    out[14] = umin(3u, ~0u) == 3u && umax(3u, ~0u) == ~0u && llmin(-1, 1) == -1 && llmax(-1, 1) == 1;
    out[15] = __usad(1u, ~0u, 2u) == 0u && __dp4a(0x02ff0301, 0x04030201, 5) == 5 + 8 - 3 + 6 + 1;"""
    np.testing.assert_array_equal(everywhere(body, out=np.zeros(16, np.int32), block=(1, 1, 1)), [1] * 16)


def test_arguments_by_value_of_any_size() -> None:
    text = """struct Many { double a; char b; int c[3]; };
    __global__ void k(double *out, char x, Many m, short y, double z) { out[0] = x + m.a + m.b + m.c[2] + y + z; }"""
    many = struct.pack("<db3x3i", 0.5, 2, 0, 0, 10)
    arguments = (Pointer("o"), Scalar(b"\x01"), Scalar(many), Scalar(b"\x64\0"), Scalar(struct.pack("<d", 1000)))
    outcome = build(text).run([ShimLaunch("k", (1, 1, 1), (1, 1, 1), arguments)], {"o": np.zeros(1)})
    assert outcome.buffers["o"][0] == 1113.5


def test_launches_follow_each_other_and_sequences_do_not() -> None:
    built = build("__device__ int total;\n__global__ void k(int *out) { out[0] += ++total; }\n")
    launch = ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("out"),))
    start = np.array([10], np.int32)
    outcomes = built.run_all([([launch] * count, FORWARD) for count in (1, 3, 2)], {"out": start})
    assert [int(outcome.buffers["out"][0]) for outcome in outcomes] == [11, 16, 13]
    assert start[0] == 10


def test_templates_and_namespaces_are_launched_by_their_names() -> None:
    text = "namespace mine { template <int N> __global__ void k(int *out) { *out = N; } }"
    built = build(text, kernels=("mine::k<7>",))
    outcome = built.run(
        [ShimLaunch("mine::k<7>", (1, 1, 1), (1, 1, 1), (Pointer("out"),))], {"out": np.zeros(1, np.int32)}
    )
    assert outcome.buffers["out"][0] == 7


def test_the_order_of_threads_is_that_of_the_schedule() -> None:
    body = "out[atomicAdd(&out[32], 1)] = threadIdx.x;"
    orders = {}
    for schedule in SCHEDULES:
        orders[schedule] = list(
            run(body, out=np.zeros(33, np.int32), block=(32, 1, 1), schedule=schedule).buffers["out"][:32]
        )
    assert orders[FORWARD] == list(range(32))
    assert orders[REVERSE] == list(range(32))[::-1]
    assert sorted(orders[chance(1)]) == sorted(orders[chance(2)]) == list(range(32))
    assert len({tuple(order) for order in orders.values()}) == 4


def test_shared_memory_begins_differently_in_each_schedule() -> None:
    body = "__shared__ unsigned int s[4]; if (threadIdx.x > 5) s[2] = 1; out[0] = s[2];"
    seen = [
        int(run(body, out=np.zeros(1, np.uint32), block=(1, 1, 1), schedule=schedule).buffers["out"][0])
        for schedule in SCHEDULES
    ]
    assert len(set(seen)) == len(SCHEDULES)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_barriers_at_different_lines_are_a_mismatch(schedule: ExecutionOrder) -> None:
    body = "if (threadIdx.x < 3)\n    __syncthreads();\nelse\n    __syncthreads();"
    outcome = run(body, out=np.zeros(1, np.int32), block=(8, 1, 1), schedule=schedule)
    assert outcome.status == "mismatched-barrier"
    assert outcome.line == 3
    assert (
        "thread (0,0,0) waits at __syncthreads, mine.cu:3, and thread (3,0,0) waits at __syncthreads, mine.cu:5"
        in outcome.message
    )
    assert outcome.buffers == {}


def test_barriers_on_one_line_are_distinguished() -> None:
    body = "if (threadIdx.x < 3) __syncthreads(); else __syncthreads();"
    assert run(body, out=np.zeros(1, np.int32), block=(8, 1, 1)).status == "mismatched-barrier"


def test_lanes_that_wait_for_one_at_a_barrier_are_a_deadlock() -> None:
    body = "if (threadIdx.x == 4)\n__syncthreads();\nelse out[0] = __shfl_sync(0xffffffffu, 1, 0);"
    outcome = run(body, out=np.zeros(1, np.int32), block=(32, 1, 1))
    assert outcome.status == "deadlock"
    assert "__shfl_sync, mine.cu:4" in outcome.message
    assert "thread (4,0,0) waits at __syncthreads, mine.cu:3" in outcome.message


def test_masks_that_do_not_agree_are_a_deadlock() -> None:
    body = "out[threadIdx.x] = __shfl_sync(threadIdx.x == 0 ? 1u << 0 | 1u << 1 : 0xffffu, 1, 0);"
    outcome = run(body, out=np.zeros(16, np.int32), block=(16, 1, 1))
    assert outcome.status == "deadlock"
    assert "that never come" in outcome.message


def test_a_lane_that_its_own_mask_leaves_out_is_said() -> None:
    outcome = run("out[0] = __shfl_sync(0xfu, 1, 0);", out=np.zeros(1, np.int32), block=(8, 1, 1))
    assert outcome.status == "mismatched-barrier"
    assert "0x0000000f that leaves it out" in outcome.message
    assert outcome.line == 2


def test_a_kernel_that_never_ends_is_ended() -> None:
    body = "int i = 0;\nwhile (out[0] == 0)\n    atomicAdd(&out[1], ++i);"
    outcome = run(body, out=np.zeros(2, np.int32), grid=(3, 1, 1), block=(2, 1, 1))
    assert outcome.status == "hang"
    assert "k did not end within 1 s: block (0,0,0), thread (0,0,0)" in outcome.message
    assert outcome.line in (None, 3, 4)


def test_nothing_is_run_after_one_that_never_ends() -> None:
    built = build("__global__ void k(int *out, int n) { while (n) atomicAdd(out, 1); }")
    launches = [
        [ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("o"), Scalar(struct.pack("<i", n))))] for n in (0, 1, 0)
    ]
    outcomes = built.run_all([(each, FORWARD) for each in launches], {"o": np.zeros(1, np.int32)}, limit_s=1)
    assert [outcome.status for outcome in outcomes] == ["ok", "hang"]


def test_a_kernel_that_only_sleeps_is_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_START_S", 0.5)
    built = build("#include <unistd.h>\n__global__ void k(int *out) { for (;;) sleep(1); }", "mine.cu")
    launch = ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("o"),))
    outcome = built.run([launch], {"o": np.zeros(1, np.int32)}, limit_s=1)
    assert (outcome.status, outcome.message) == ("hang", "mine.cu did not end and used no CPU time")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("\nout[4] = 1;", "past the end of buffer out: byte 16 of 16"),
        ("\nout[5 + threadIdx.x] += 1;", "past the end of buffer out: byte 20 of 16"),
        pytest.param("\nvolatile int z = 0; out[0] = 7 / z;", "divided an integer by zero", marks=X86),
        ("\n*(volatile int *)8 = 1;", "memory that is not its own"),
        ("\n__trap();", "trapped"),
        ("\nout[1 << 20] = 1;", "memory that is not its own, nearest to that of buffer out: byte 4194304 of 16"),
        ("\nout[-(1 << 20)] = 1;", "nearest to that of buffer out: byte -4194304 of 16"),
        ("\nassert(out[0] == 7);", "k failed its assertion out[0] == 7: block (0,0,0), thread (0,0,0)"),
    ],
)
def test_a_crash_is_an_outcome_with_its_line(body: str, said: str) -> None:
    outcome = run(body, out=np.zeros(4, np.int32), block=(1, 1, 1))
    assert outcome.status == "crash"
    assert said in outcome.message
    assert outcome.line in (None, 3)  # None: there is no addr2line


def test_an_endless_recursion_is_an_outcome() -> None:
    text = "__device__ int deep(volatile int *o) { volatile int a[64]; a[*o] = 1; return a[1] + deep(o) + deep(o); }\n"
    built = build(text + "__global__ void k(int *o) { *o = deep(o); }")
    outcome = built.run([ShimLaunch("k", (1, 1, 1), (4, 1, 1), (Pointer("o"),))], {"o": np.zeros(1, np.int32)})
    assert outcome.status == "crash"


def test_writes_a_little_beside_a_buffer_are_seen() -> None:
    past = run("out[1] = 7;", out=np.zeros(1, np.int32), block=(1, 1, 1))
    before = run("out[-1] = 7;", out=np.zeros(1, np.int32), block=(1, 1, 1))
    assert (past.status, before.status) == ("crash", "crash")
    assert "past the end of buffer out: byte 4 of 4" in past.message
    assert "before the beginning of buffer out" in before.message


def test_writes_past_dynamic_shared_memory_are_seen() -> None:
    outcome = run("extern __shared__ int s[];\ns[4] = 0;", out=np.zeros(1, np.int32), block=(1, 1, 1), shared=16)
    assert outcome.status == "crash"
    assert "past the 16 bytes of dynamic shared memory" in outcome.message


@pytest.mark.parametrize("place", [4 << 10, 60 << 10, 1 << 16])
def test_writes_far_past_dynamic_shared_memory_are_seen_and_leave_the_index_alone(place: int) -> None:
    body = f"extern __shared__ int s[];\nfor (int i = 0; i <= {place}; ++i) s[i] = 1 << 30;"
    outcome = run(body, out=np.zeros(1, np.int32), grid=(3, 1, 1), block=(1, 1, 1), shared=16)
    assert outcome.status == "crash"
    assert "past the 16 bytes of dynamic shared memory" in outcome.message
    assert "(0,0,0)" in outcome.message


def test_a_crash_spoils_no_other_sequence() -> None:
    built = build("__global__ void k(int *out, int i) { out[i] = 1; }")
    sequences = [
        ([ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("o"), Scalar(struct.pack("<i", i))))], FORWARD)
        for i in (0, 1 << 20, 3)
    ]
    outcomes = list(built.run_all(sequences, {"o": np.zeros(4, np.int32)}))
    assert [outcome.status for outcome in outcomes] == ["ok", "crash", "ok"]
    np.testing.assert_array_equal(outcomes[2].buffers["o"], [0, 0, 0, 1])


@pytest.mark.parametrize(
    ("launch", "said"),
    [
        (ShimLaunch("other", (1, 1, 1), (1, 1, 1)), "no kernel 'other'"),
        (ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("p"), Scalar(b"\0" * 4))), "no buffer 'p'"),
        (ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("o"),)), "k takes 2 arguments and was given 1"),
        (
            ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("o"), Scalar(b"\0" * 8))),
            "argument 2 has 8 bytes and the parameter 4",
        ),
        (
            ShimLaunch("k", (1, 1, 1), (2048, 1, 1), (Pointer("o"), Scalar(b"\0" * 4))),
            "no GPU takes a block of (2048,1,1)",
        ),
        (ShimLaunch("k", (1, 0, 1), (1, 1, 1), (Pointer("o"), Scalar(b"\0" * 4))), "the grid is empty"),
        (ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("o"), Scalar(b"\0" * 4)), 1 << 20), "dynamic shared memory"),
    ],
)
def test_launches_that_no_device_would_take_are_refused(launch: ShimLaunch, said: str) -> None:
    built = build("__global__ void k(int *out, int i) { out[i] = 1; }")
    with pytest.raises(InputError) as caught:
        built.run([launch], {"o": np.zeros(4, np.int32)})
    assert said in caught.value.message
    assert caught.value.hint

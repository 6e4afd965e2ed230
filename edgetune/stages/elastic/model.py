"""The model of the simulated GPU: how long a block of a kernel takes alone, and how much of a multiprocessor it uses.

    a multiprocessor computes   [#########.......]    the more threads are resident, the more of its peak is reached;
    and draws from memory       [####............]    from a number of threads on, all of it, and then blocks share
                                0      640 threads

The model has no caches, no instructions but floating-point ones, no warps that wait for each other at barriers, no
changing clocks and no other user of memory; figures made with it are labelled as simulated.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import Call, Gpu, Resources, allocated, blocks_resident
from edgetune.stages.elastic.pieces import SATURATING_THREADS, WAIT_S, took_s
from edgetune.units import NS, format_bytes

ASSUMED = Resources(registers_per_thread=32)
"""Of a kernel that was not compiled: the most registers with which 65536 are enough for 2048 threads, so that they do
not limit it. An assumption."""

_MOST_REGISTERS = 255
"""Of a thread (CUDA C++ Programming Guide, Technical Specifications, compute capability 3.5 and later)."""
_LONGEST_S = 3600.0
"""Longer than any kernel runs; the clock still resolves a nanosecond in an hour."""
_KEPT = 4096
"""Demands that are kept: many times those of the largest network."""


@dataclass(frozen=True, slots=True)
class GpuTimingModel:
    """Numbers that no catalogue has.

    Those called assumed were not measured anywhere.

    Args:
        saturating_threads: Resident threads from which on a multiprocessor reaches its peak, see
            ``pieces.SATURATING_THREADS``.
        bandwidth_sms: Share of the multiprocessors that draw all of the bandwidth together. Assumed.
        wait_s: Time of one wait of ``Call.waits_per_block``, see ``pieces.WAIT_S``, s.
        turn_s: Time that a persistent block needs to go on to its next logical block: it divides indices and waits for
            shared memory; some hundred cycles. Assumed, s.
        serial_cost: Share by which a block takes longer where a thread runs several logical ones. Assumed.
        gap_s: From the end of a launch to the first block of one that waited for it: 3.8 us a launch of which 2.9 us
            run (Gray 2019, Getting Started with CUDA Graphs, NVIDIA, on a V100), s.
        host_s: Time that the host is busy with a launch: ``cuLaunchKernel`` by ``cuda.bindings`` with arguments packed
            before, as measured on the host of an H100. Its loop in Python takes 22 us, and a board of small cores
            longer, s.
        stream_wait_s: More of it where a launch waits for launches of other streams, s.
        decision_s: Time that the host is busy with each decision, also one to launch nothing, s.
        event_s: Time that the host is busy with each start or end of a kernel, s. These three are zero: a host that
            takes no time but for launches. On the host of an H100 10, 12 and 2.5 us agree with what workloads took by
            the loop in Python (``tests/benchmarks/elastic_model.py``).
    """

    saturating_threads: int = SATURATING_THREADS
    bandwidth_sms: float = 0.5
    wait_s: float = WAIT_S
    turn_s: float = 100e-9
    serial_cost: float = 0.05
    gap_s: float = 0.9e-6
    host_s: float = 7e-6
    stream_wait_s: float = 0.0
    decision_s: float = 0.0
    event_s: float = 0.0


def seen_by_policies(gpu: Gpu, model: GpuTimingModel) -> Gpu:
    """Return a GPU as policies see it: a launch takes as long as from an event to the start of the launch in answer."""
    return replace(gpu, launch_s=gpu.launch_s + model.event_s + model.decision_s + model.host_s)


@dataclass(frozen=True, slots=True)
class BlockDemand:
    """The needs of a physical block of a launch, and what it uses while it is alone.

    Args:
        threads, registers, shared_bytes: Of the multiprocessor, as it allocates them.
        logical_ns: Time of one logical block alone on an idle GPU, ns.
        compute, memory: Share of the multiprocessor's computing, and of its bandwidth, that it uses then.
        computing, drawing: Share of its time that it would still take if only computing, or only drawing, took time:
            how much it slows down when that gets slower.
        bytes_per_ns: Bytes that it draws then.
    """

    threads: int
    registers: int
    shared_bytes: int
    logical_ns: float
    compute: float
    memory: float
    computing: float
    drawing: float
    bytes_per_ns: float


@lru_cache(_KEPT)
def demand_of(
    call: Call, gpu: Gpu, model: GpuTimingModel, *, per_thread: int = 1, original: bool = False
) -> BlockDemand | None:
    """Return the needs and use of a physical block of a kernel; ``None`` where not even one fits on a multiprocessor.

    A block alone reaches the share of the peak that its threads are of the saturating ones. It takes as long as the
    slower of computing and drawing, which overlap (Williams et al. 2009, Roofline), or as the waits of a thread, which
    do not get shorter with more threads (Volkov 2016).

    Args:
        call: The kernel.
        gpu: The GPU.
        model: Of it.
        per_thread: Logical threads in a physical one.
        original: Whether the original is launched, whose blocks go on to no other.

    Raises:
        InputError: the duration of the kernel is unknown.
    """
    threads = math.ceil(call.logical.threads / per_thread)
    resources = call.resources.get(per_thread, call.resources.get(1, ASSUMED))
    if blocks_resident(gpu, resources, threads, call.logical.dynamic_shared_bytes) == 0:
        return None
    taken, registers = allocated(resources, threads)
    share = min(1.0, threads / model.saturating_threads)
    compute_ns, draw_ns, drawn_bytes = _alone_ns(call, gpu, model, share)
    slower = 1.0 if per_thread == 1 else 1.0 + model.serial_cost
    turn_ns = 0.0 if original else model.turn_s * NS
    waits = call.waits_per_block if call.block_s is None else 0  # a measured time has them
    waits_ns = per_thread * waits * model.wait_s * NS
    logical_ns = max(slower * max(compute_ns, draw_ns), waits_ns) + turn_ns
    computing, drawing = slower * compute_ns / logical_ns, slower * draw_ns / logical_ns
    return BlockDemand(
        threads=taken,
        registers=registers,
        shared_bytes=resources.static_shared_bytes + call.logical.dynamic_shared_bytes,
        logical_ns=logical_ns,
        compute=share * computing,
        memory=share * drawing,
        computing=computing,
        drawing=drawing,
        bytes_per_ns=drawn_bytes / logical_ns,
    )


def check_duration(call: Call, gpu: Gpu) -> None:
    """Check that the time of a simulated kernel is known and possible.

    Raises:
        InputError: it is unknown, or its operations, bytes or times come to more than an hour.
    """
    demand_of(call, gpu, GpuTimingModel())
    least_s = took_s(gpu, call, call.logical.blocks, 1, call.logical.blocks)
    if not least_s <= _LONGEST_S:
        message = f"kernel {call.kernel} takes about {least_s:.3g} s"
        raise InputError(message, "are flop_per_block, bytes_per_block or block_time those of one block?")


def check_fits(call: Call, gpu: Gpu) -> None:
    """Check that a block of a kernel fits on a multiprocessor.

    Raises:
        InputError: not one fits.
    """
    logical, resources = call.logical, call.resources.get(1, ASSUMED)
    registers, shared_bytes = resources.registers_per_thread, logical.dynamic_shared_bytes
    if registers <= _MOST_REGISTERS and blocks_resident(gpu, resources, logical.threads, shared_bytes):
        return
    shared = format_bytes(resources.static_shared_bytes + shared_bytes)
    raise InputError(
        f"no block of kernel {call.kernel} fits on {gpu.name}: it has {logical.threads} threads of {registers} "
        f"registers and {shared} of shared memory, and there are {gpu.threads_per_block} threads of {_MOST_REGISTERS} "
        f"registers and {format_bytes(gpu.shared_bytes_per_block)} at most, on a multiprocessor "
        f"{gpu.registers_per_sm} registers and room for {gpu.threads_per_sm} threads",
        "launch smaller blocks, or choose another GPU",
    )


def _alone_ns(call: Call, gpu: Gpu, model: GpuTimingModel, share: float) -> tuple[float, float, float]:
    """Return the times of computing and drawing of a logical block at a share of a multiprocessor, ns, and its bytes.

    A measured time is that of the original block with all its threads: with fewer, which reach a smaller share of the
    peak, it is longer.
    """
    if call.block_s is not None:
        measured_share = min(1.0, call.logical.threads / model.saturating_threads)
        return call.block_s * NS * measured_share / share, 0.0, 0.0
    if call.flop_per_block <= 0 and call.bytes_per_block <= 0:
        raise InputError(
            f"the time of kernel {call.kernel} is unknown: it has neither operations, nor bytes, nor a time",
            "give flop_per_block and bytes_per_block, or block_time, of one of its blocks",
        )
    draws_bytes_per_s = gpu.bandwidth_bytes_per_s / max(1.0, model.bandwidth_sms * gpu.sm_count)
    compute_s = call.flop_per_block / (call.efficiency * share * gpu.flop_per_s / gpu.sm_count)
    return compute_s * NS, call.bytes_per_block / (share * draws_bytes_per_s) * NS, call.bytes_per_block

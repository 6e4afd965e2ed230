"""Where and when each physical block ran: records that thread 0 of it writes, on request.

    kernel(..., records)     first statement: note the multiprocessor (%smid) and the time (%globaltimer)
                             on leaving, by whichever return: note the time again
    records                  [sm, start, end] [sm, start, end] ...    one for each physical block, by launch

That is residency as thread 0 sees it, not occupancy: warps of its block may end later. Both registers are documented in
NVIDIA, "Parallel Thread Execution ISA", special registers; the timer's step differs between GPUs and is not promised,
so short blocks may seem to take no time. Recording costs registers and time, and is off unless asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from edgetune import limits
from edgetune.elastic.backend import Launch, Residency
from edgetune.elastic.cuda.context import Context
from edgetune.elastic.cuda.timers import GlobalTimer

PARAMETER = "edgetune_records"
_WORDS, _WORD_BYTES = 3, 8
MOST_BLOCKS = 1 << 20
"""Recorded in one run: 24 MiB."""

PREAMBLE = f"""
struct edgetune_noted_t {{  // made when a thread enters a kernel, destroyed when it leaves
    unsigned long long *at;
    static __device__ unsigned long long now() {{
        unsigned long long time;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
        return time;
    }}
    __device__ edgetune_noted_t(unsigned long long *records) : at(0) {{
        if (records == 0 || threadIdx.x + threadIdx.y + threadIdx.z != 0) return;
        unsigned int sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm) :: "memory");
        const unsigned long long row = blockIdx.y + static_cast<unsigned long long>(gridDim.y) * blockIdx.z;
        at = records + {_WORDS} * (blockIdx.x + gridDim.x * row);
        at[0] = sm;
        at[1] = now();
    }}
    __device__ ~edgetune_noted_t() {{
        if (at != 0) at[2] = now();
    }}
}};
"""


def with_block_records(source: str, name: str) -> str:
    """Return a source whose kernels take an address for block records behind all other arguments.

    Args:
        source: CUDA C, elastic forms included.
        name: Of the file; lines keep their numbers in messages of compilers.

    Raises:
        InputError: it does not parse.
        DeviceError: the parser is missing.
    """
    from edgetune.elastic.source.parse import parse
    from edgetune.elastic.source.syntax import Edit, edited, find, line_mark, line_of

    with limits.bounded_cpu_time("source_seconds", f"reading {name}"):
        parsed = parse(source, name)
    edits = []
    for kernel in parsed.kernels:
        parameters = next(find(kernel.node.child_by_field_name("declarator") or kernel.node, "parameter_list"))
        comma = ", " if any("parameter_declaration" in each.type for each in parameters.named_children) else ""
        end, begin = parameters.end_byte - 1, kernel.body.start_byte + 1
        edits.append(Edit(end, end, f"{comma}unsigned long long *{PARAMETER}"))
        edits.append(Edit(begin, begin, f" edgetune_noted_t edgetune_noted({PARAMETER});"))
    root = parsed.tree.root_node
    return PREAMBLE + line_mark(line_of(root), name) + edited(root, edits)


class BlockRecords:
    """Room on the GPU for the records of a run.

    Args:
        context: Where.
        timer: Tells the GPU's timer from the host's clock.
        most_blocks: Recorded in all; launches that come after that are not recorded.
    """

    def __init__(self, context: Context, timer: GlobalTimer, most_blocks: int = MOST_BLOCKS) -> None:
        self._context, self._timer, self._most_blocks = context, timer, most_blocks
        size_bytes = most_blocks * _WORDS * _WORD_BYTES
        self._address = context.allocate(size_bytes)
        context.fill(self._address, 0, size_bytes)
        self._launches: list[tuple[int, int]] = []
        self._used = 0
        self.unrecorded = 0
        """Launches for which there was no room."""
        timer.read()

    @property
    def apart_ns(self) -> int:
        """How far times of blocks may be off on the host's clock, ns."""
        return self._timer.uncertain_ns

    def reserve(self, launch: Launch) -> int:
        """Return the address for a launch's records; 0 where there is no room left."""
        if self._used + launch.physical_blocks > self._most_blocks:
            self.unrecorded += 1
            return 0
        address = self._address + self._used * _WORDS * _WORD_BYTES
        self._launches.append((launch.number, launch.physical_blocks))
        self._used += launch.physical_blocks
        return address

    def residencies(self) -> list[Residency]:
        """Return where blocks were, on the stage's clock; what was launched has to be over.

        In a part of the GPU, multiprocessors keep the numbers that they have in the whole: those seen are counted anew.
        """
        self._timer.read()
        data = self._context.download(self._address, self._used * _WORDS * _WORD_BYTES)
        words = np.frombuffer(data, np.uint64).reshape(-1, _WORDS)
        numbers = _numbers(words, self._context.facts.gpu.sm_count)
        found: list[Residency] = []
        at = 0
        for number, blocks in self._launches:
            rows = words[at : at + blocks]
            at += blocks
            ran = rows[(rows[:, 1] != 0) & (rows[:, 2] >= rows[:, 1])]  # others failed before they noted anything
            stays = [(numbers[int(sm)], int(start), int(end)) for sm, start, end in ran]
            found.extend(_merged(number, stays, self._timer))
        return found


def _numbers(words: npt.NDArray[np.uint64], sm_count: int) -> dict[int, int]:
    """Return the numbers of multiprocessors: their own, or their place among those seen where there are not so many."""
    seen = [int(sm) for sm in np.unique(words[words[:, 1] != 0, 0])]
    own = not seen or seen[-1] < sm_count
    return {sm: sm if own else place for place, sm in enumerate(seen)}


def _merged(number: int, rows: Sequence[tuple[int, int, int]], timer: GlobalTimer) -> list[Residency]:
    """Return the blocks of a launch by multiprocessor, those that follow without a pause as one."""
    spans: list[list[Any]] = []
    for sm, start, end in sorted(rows):
        if spans and spans[-1][0] == sm and start <= spans[-1][2]:
            spans[-1][2] = max(spans[-1][2], end)
            spans[-1][3] += 1
        else:
            spans.append([sm, start, end, 1])
    return [Residency(number, sm, timer.host_ns(start), timer.host_ns(end), count) for sm, start, end, count in spans]

"""The GPU's time on the host's clock, and records of where and when each physical block ran.

    host     ----before----------------after------>        an event that was recorded in between happened at their
    GPU             ---event--                             middle, give or take half of what is between them

Events tell the milliseconds since another event in single precision, so that the other must be recent (after 16 s a
step is a microsecond), and a GPU's clock is not the host's. So one is set against the other anew every second.

    .entry kernel(..., .param .u64 edgetune_records)
                             first: note the multiprocessor (%smid) and the time (%globaltimer)
                             on leaving, by whichever return: note the time again
    records                  [sm, start, end] [sm, start, end] ...    one for each physical block, by launch

Block records are written by thread 0 of a block, on request: residency, not occupancy, as warps of its block may end
later. Both registers are documented in NVIDIA, "Parallel Thread Execution ISA", special registers; the timer's step
differs between GPUs and is not promised, so short blocks may seem to take no time. Recording costs registers and time.
"""

from itertools import chain
from typing import Any

import numpy as np

from edgetune.stages.elastic.cuda.context import Context, Packed
from edgetune.stages.elastic.ptx.parse import parse
from edgetune.stages.elastic.ptx.transform import edited, surrounded
from edgetune.stages.elastic.view import Launch, Residency

_TRIES = 10
_QUERIES = 50
"""Of an event on an idle stream before giving up for this time: a tenth of a millisecond at 2 us each."""
_RENEWED_NS = 1_000_000_000
_NEVER_NS = 1 << 62
_LOOSE = 4
"""A reading that is so many times less certain than the first is dropped."""
_AGAIN_NS = 10_000_000
"""Until the next try after a dropped reading: each costs 0.1 ms, in which nothing is decided."""

TIMER_KERNEL, DELAY_KERNEL = "edgetune_timer", "edgetune_delay"
TIMER_SOURCE = f"""
extern "C" __global__ void {TIMER_KERNEL}(unsigned long long *time) {{
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(*time));
}}
extern "C" __global__ void {DELAY_KERNEL}(unsigned long long duration_ns) {{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)); while (now - begin < duration_ns);
}}
"""


class EventTimes:
    """Times of events on the host's clock.

    Args:
        context: The GPU, and the host's clock.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._now_ns = context, context.now_ns
        self._stream = context.stream(context.priorities()[1])
        self._event, self._spare = context.event(), context.event()
        self._at_ns = self._due_ns = 0
        self._apart_ns = _NEVER_NS
        if not any([self._set(self._apart_ns - 1) for _ in range(_TRIES)]):  # it is busy: wait for it, however long
            context.synchronise(self._stream)
            self._set(_NEVER_NS)
        self._first_ns = self.uncertain_ns = self._apart_ns
        """Uncertainty of times so far, ns: half the time between the host's readings, and the drift of the clocks
        between two settings."""

    def at_ns(self, event: Any) -> int:
        """Return when an event that is over happened; never in the future."""
        now_ns = self._now_ns()
        if now_ns > self._due_ns:
            self._renew(now_ns)
        elapsed_ms = self._context.driver.call("cuEventElapsedTime", self._event, event)
        return min(self._at_ns + round(float(elapsed_ms) * 1e6), now_ns)

    def _renew(self, now_ns: int) -> None:
        at_ns, before = self._at_ns, self._event
        if not self._set(_LOOSE * self._first_ns):
            self._due_ns = now_ns + _AGAIN_NS
            return
        elapsed_ms = self._context.driver.call("cuEventElapsedTime", before, self._event)
        moved_ns = abs(at_ns + round(float(elapsed_ms) * 1e6) - self._at_ns)
        self.uncertain_ns = max(self.uncertain_ns, self._apart_ns + moved_ns)

    def _set(self, most_apart_ns: int) -> bool:
        """Set the GPU's time against the host's, if that is possible with so little uncertainty now; return whether."""
        driver, before_ns = self._context.driver, self._now_ns()
        driver.call("cuEventRecord", self._spare, self._stream)
        for _ in range(_QUERIES):
            if driver.is_over(self._spare):
                after_ns = self._now_ns()
                apart_ns = (after_ns - before_ns) // 2
                if apart_ns > most_apart_ns:
                    break
                self._at_ns, self._apart_ns, self._due_ns = before_ns + apart_ns, apart_ns, after_ns + _RENEWED_NS
                self._event, self._spare = self._spare, self._event
                return True
        return False


class OneBlock:
    """A kernel that is launched with one thread.

    Args:
        context: The GPU.
        image: Compiled for it.
        symbol: Of the kernel.
        numbers: Its arguments.
    """

    def __init__(self, context: Context, image: bytes, symbol: str, *numbers: bytes) -> None:
        self._driver, self._packed = context.driver, Packed(numbers, None)
        self._function = context.function(context.load(image), symbol)

    def launch(self, stream: Any) -> None:
        """Put it on a stream."""
        self._driver.call("cuLaunchKernel", self._function, *(1,) * 6, 0, stream, self._packed.address, 0)


def delay(context: Context, image: bytes, duration_ns: int) -> OneBlock:
    """Return what keeps a stream busy while the host queues timed launches, so that the GPU is timed and not the host.

    Args:
        context: The GPU.
        image: ``TIMER_SOURCE``, compiled.
        duration_ns: How long.
    """
    return OneBlock(context, image, DELAY_KERNEL, duration_ns.to_bytes(8, "little"))


class GlobalTimer:
    """Times of ``%globaltimer`` on the host's clock: a straight line through its first and last reading.

    Args:
        context: The GPU.
        image: ``TIMER_SOURCE``, compiled.
    """

    def __init__(self, context: Context, image: bytes) -> None:
        self._context, self._now_ns = context, context.now_ns
        self._stream, self._over = context.stream(), context.event()
        self._address = context.allocate(8)
        self._kernel = OneBlock(context, image, TIMER_KERNEL, self._address.to_bytes(8, "little"))
        self._readings: list[tuple[int, int]] = []
        self.uncertain_ns = 0
        """Uncertainty of times at the readings, ns; in between a clock may have drifted away from the line."""

    def read(self) -> None:
        """Read both clocks: the closest of several readings."""
        closest = min((self._read_once() for _ in range(_TRIES)), key=lambda reading: reading[0])
        self.uncertain_ns = max(self.uncertain_ns, closest[0])
        self._readings = [*self._readings[:1], closest[1:]]

    def host_ns(self, timer_ns: int) -> int:
        """Return the host's time for one of the timer's, after a reading."""
        (host_ns, first_ns), (last_host_ns, last_ns) = self._readings[0], self._readings[-1]
        rate = (last_host_ns - host_ns) / (last_ns - first_ns) if last_ns > first_ns else 1.0
        return host_ns + round((timer_ns - first_ns) * rate)

    def _read_once(self) -> tuple[int, int, int]:
        """Return the uncertainty, the host's time and the timer's."""
        driver, before_ns = self._context.driver, self._now_ns()
        self._kernel.launch(self._stream)
        driver.call("cuEventRecord", self._over, self._stream)
        self._context.await_event(self._over)
        after_ns = self._now_ns()
        timer_ns = int.from_bytes(self._context.download(self._address, 8), "little")
        return (after_ns - before_ns) // 2, (before_ns + after_ns) // 2, timer_ns


PARAMETER = "edgetune_records"
_WORDS, _WORD_BYTES = 3, 8
MOST_BLOCKS = 1 << 20
"""Recorded in one run: 24 MiB."""

_NOTE = f"""
	.reg .b64 %edgetune_record, %edgetune_time;
	.reg .b32 %edgetune_own, %edgetune_size, %edgetune_more;
	.reg .pred %edgetune_notes;
	ld.param.u64 %edgetune_record, [{PARAMETER}];
	setp.ne.u64 %edgetune_notes, %edgetune_record, 0;
	mov.u32 %edgetune_own, %tid.x;
	mov.u32 %edgetune_more, %tid.y;
	or.b32 %edgetune_own, %edgetune_own, %edgetune_more;
	mov.u32 %edgetune_more, %tid.z;
	or.b32 %edgetune_own, %edgetune_own, %edgetune_more;
	setp.eq.and.u32 %edgetune_notes, %edgetune_own, 0, %edgetune_notes;
	mov.u32 %edgetune_own, %ctaid.z;
	mov.u32 %edgetune_size, %nctaid.y;
	mov.u32 %edgetune_more, %ctaid.y;
	mad.lo.u32 %edgetune_own, %edgetune_own, %edgetune_size, %edgetune_more;
	mov.u32 %edgetune_size, %nctaid.x;
	mov.u32 %edgetune_more, %ctaid.x;
	mad.lo.u32 %edgetune_own, %edgetune_own, %edgetune_size, %edgetune_more;
	mad.wide.u32 %edgetune_record, %edgetune_own, {_WORDS * _WORD_BYTES}, %edgetune_record;
	cvta.to.global.u64 %edgetune_record, %edgetune_record;
	mov.u32 %edgetune_own, %smid;
	cvt.u64.u32 %edgetune_time, %edgetune_own;
	@%edgetune_notes st.global.u64 [%edgetune_record], %edgetune_time;
	mov.u64 %edgetune_time, %globaltimer;
	@%edgetune_notes st.global.u64 [%edgetune_record+{_WORD_BYTES}], %edgetune_time;
	"""
_NOTE_END = f"""
$edgetune_leave:
	mov.u64 %edgetune_time, %globaltimer;
	@%edgetune_notes st.global.u64 [%edgetune_record+{2 * _WORD_BYTES}], %edgetune_time;
	ret;
"""


def with_block_records(text: str, name: str) -> str:
    """Return PTX whose kernels take an address for block records behind all other arguments.

    Args:
        text: Elastic forms included.
        name: Of the file, for messages.

    Raises:
        InputError: it is no PTX.
    """
    parameter = f"\n\t.param .u64 {PARAMETER}\n"
    made = (surrounded(each, parameter, _NOTE, _NOTE_END, "$edgetune_leave") for each in parse(text, name).entries)
    return edited(text, (0, len(text)), [*chain.from_iterable(made)])


class BlockRecords:
    """Room on the GPU for the records of a run.

    Args:
        context: The GPU.
        timer: Converts the GPU's timer to the host's clock.
        most_blocks: Recorded in all; later launches are not recorded.
    """

    def __init__(self, context: Context, timer: GlobalTimer, most_blocks: int = MOST_BLOCKS) -> None:
        self._context, self.timer, self._most_blocks = context, timer, most_blocks
        size_bytes = most_blocks * _WORDS * _WORD_BYTES
        self._address = context.allocate(size_bytes)
        context.fill(self._address, 0, size_bytes)
        self._launches: list[tuple[int, int]] = []
        self._used = 0
        self.unrecorded = 0
        """Launches for which there was no room."""
        timer.read()

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
        """Return where blocks were, on the clock of the backend; every launch has to be over.

        Blocks of a launch are joined where there is no pause between them. In a part of the GPU, multiprocessors keep
        the numbers that they have in the whole: those seen are renumbered.
        """
        self.timer.read()
        data = self._context.download(self._address, self._used * _WORDS * _WORD_BYTES)
        words = np.frombuffer(data, np.uint64).reshape(-1, _WORDS)
        seen = [int(sm) for sm in np.unique(words[words[:, 1] != 0, 0])]
        own = not seen or seen[-1] < self._context.facts.gpu.sm_count
        found, at, host_ns = list[Residency](), 0, self.timer.host_ns
        for number, blocks in self._launches:
            rows, spans = words[at : at + blocks], list[list[int]]()
            at += blocks
            ran = rows[(rows[:, 1] != 0) & (rows[:, 2] >= rows[:, 1])]  # others failed before they noted anything
            for sm, start, end in sorted(ran.tolist()):
                if spans and spans[-1][0] == sm and start <= spans[-1][2]:
                    spans[-1][2:] = max(spans[-1][2], end), spans[-1][3] + 1
                else:
                    spans.append([sm, start, end, 1])
            found += [
                Residency(number, sm if own else seen.index(sm), host_ns(start), host_ns(end), count)
                for sm, start, end, count in spans
            ]
        return found

"""The GPU's time on the host's clock: from events, and from the timer that kernels read.

    host     ----before----------------after------>        an event that was recorded in between happened at their
    GPU             ---event--                             middle, give or take half of what is between them

Events tell the milliseconds since another event in single precision, so that the other must not be long ago (after 16 s
a step is a microsecond); and a GPU's clock is not the host's. So one is set against the other anew every second.
"""

from __future__ import annotations

from typing import Any

from edgetune.elastic.cuda.context import Context
from edgetune.elastic.cuda.packing import Packed

_TRIES = 10
_QUERIES = 50
"""Of an event on an idle stream before giving up for this time: a tenth of a millisecond where one takes 2 us."""
_RENEWED_NS = 1_000_000_000
_NEVER_NS = 1 << 62
_LOOSE = 4
"""A reading that is so many times less certain than the first is not taken."""
_AGAIN_NS = 10_000_000
"""Until the next try after a reading that was not taken: each costs 0.1 ms, in which nobody decides anything."""

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
    """When events happened, on the host's clock.

    Args:
        context: Where the events are, and the host's clock.
    """

    def __init__(self, context: Context) -> None:
        self._context, self._now_ns = context, context.now_ns
        self._stream = context.stream(context.priorities()[1])
        self._event, self._spare = context.event(), context.event()
        self._at_ns = self._taken_ns = self._due_ns = 0
        self._apart_ns = _NEVER_NS
        for _ in range(_TRIES):
            self._set(self._apart_ns - 1)
        if not self._taken_ns:  # the GPU is busy with something else: wait for it, however long
            context.synchronise(self._stream)
            self._set(_NEVER_NS)
        self._first_ns = self.uncertain_ns = self._apart_ns
        """How far times may have been off so far, ns: half of what lay between the host's readings, and by how much the
        clocks had moved apart when they were set against each other anew."""

    def at_ns(self, event: Any) -> int:
        """Return when an event happened, which is over; never in the future."""
        now_ns = self._now_ns()
        if now_ns > self._due_ns:
            self._renew(now_ns)
        elapsed_ms = self._context.driver.call("cuEventElapsedTime", self._event, event)
        return min(self._at_ns + round(float(elapsed_ms) * 1e6), now_ns)

    def _renew(self, now_ns: int) -> None:
        at_ns, taken_ns, before = self._at_ns, self._taken_ns, self._event
        self._set(_LOOSE * self._first_ns)
        if self._taken_ns == taken_ns:
            self._due_ns = now_ns + _AGAIN_NS
            return
        elapsed_ms = self._context.driver.call("cuEventElapsedTime", before, self._event)
        moved_ns = abs(at_ns + round(float(elapsed_ms) * 1e6) - self._at_ns)
        self.uncertain_ns = max(self.uncertain_ns, self._apart_ns + moved_ns)

    def _set(self, most_apart_ns: int) -> None:
        """Set the GPU's time against the host's, if that can be done with so little uncertainty now."""
        driver, before_ns = self._context.driver, self._now_ns()
        driver.call("cuEventRecord", self._spare, self._stream)
        for _ in range(_QUERIES):
            if driver.is_over(self._spare):
                after_ns = self._now_ns()
                apart_ns = (after_ns - before_ns) // 2
                if apart_ns <= most_apart_ns:
                    self._at_ns, self._apart_ns = before_ns + apart_ns, apart_ns
                    self._event, self._spare = self._spare, self._event
                    self._taken_ns, self._due_ns = after_ns, after_ns + _RENEWED_NS
                return


class _OneThread:
    """A kernel of ``TIMER_SOURCE``, launched with one thread and its one number of 64 bits."""

    def __init__(self, context: Context, image: bytes, symbol: str, number: int) -> None:
        self._driver = context.driver
        self._function = context.function(context.load(image), symbol)
        self._packed = Packed([number.to_bytes(8, "little")], None)

    def launch(self, stream: Any) -> None:
        call, address = self._driver.call, self._packed.address
        call("cuLaunchKernel", self._function, 1, 1, 1, 1, 1, 1, 0, stream, address, 0)


class Delay:
    """Keeps a stream busy while the host queues what is to be timed, so that the GPU is timed and not the host.

    Args:
        context: Where.
        image: ``TIMER_SOURCE``, compiled.
        duration_ns: How long.
    """

    def __init__(self, context: Context, image: bytes, duration_ns: int) -> None:
        self._kernel = _OneThread(context, image, DELAY_KERNEL, duration_ns)

    def launch(self, stream: Any) -> None:
        """Put it on a stream."""
        self._kernel.launch(stream)


class GlobalTimer:
    """What kernels read as ``%globaltimer``, on the host's clock: a straight line through its first and last reading.

    Args:
        context: Where.
        image: ``TIMER_SOURCE``, compiled.
    """

    def __init__(self, context: Context, image: bytes) -> None:
        self._context, self._now_ns = context, context.now_ns
        self._stream, self._over = context.stream(), context.event()
        self._address = context.allocate(8)
        self._kernel = _OneThread(context, image, TIMER_KERNEL, self._address)
        self._readings: list[tuple[int, int]] = []
        self.uncertain_ns = 0
        """How far times may be off, ns, at the readings; in between a clock may have drifted away from the line."""

    def read(self) -> None:
        """Read both clocks: the closest of several readings."""
        closest = min((self._read_once() for _ in range(_TRIES)), key=lambda reading: reading[0])
        self.uncertain_ns = max(self.uncertain_ns, closest[0])
        self._readings = [*self._readings[:1], closest[1:]]

    def host_ns(self, timer_ns: int) -> int:
        """Return the host's time for one of the timer's, after it was read."""
        (host_ns, first_ns), (last_host_ns, last_ns) = self._readings[0], self._readings[-1]
        rate = (last_host_ns - host_ns) / (last_ns - first_ns) if last_ns > first_ns else 1.0
        return host_ns + round((timer_ns - first_ns) * rate)

    def _read_once(self) -> tuple[int, int, int]:
        """Return how far the two may be apart, the host's time and the timer's."""
        driver, before_ns = self._context.driver, self._now_ns()
        self._kernel.launch(self._stream)
        driver.call("cuEventRecord", self._over, self._stream)
        self._context.await_event(self._over)
        after_ns = self._now_ns()
        timer_ns = int.from_bytes(self._context.download(self._address, 8), "little")
        return (after_ns - before_ns) // 2, (before_ns + after_ns) // 2, timer_ns

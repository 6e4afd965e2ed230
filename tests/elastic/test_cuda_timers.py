"""Times of a GPU whose clock is not the host's, and that is sometimes too busy to be asked."""

from __future__ import annotations

from typing import Any

import pytest

from edgetune.stages.elastic.cuda.blocks import EventTimes

US = 1000
SECOND_NS = 10**9


class Clocks:
    """Stands for a context and its driver: the host's clock moves by a microsecond with every call, the GPU's faster.

    Args:
        fast: By which share the GPU's clock is fast.
    """

    def __init__(self, fast: float) -> None:
        self.host_ns, self.fast = 0, fast
        self.busy = False
        self.queries = 0
        self.driver = self

    def now_ns(self) -> int:
        self.host_ns += US
        return self.host_ns

    def stream(self, priority: int) -> int:
        return priority

    def priorities(self) -> tuple[int, int]:
        return 0, -5

    def event(self) -> dict[str, float]:
        return {}

    def call(self, function: str, *arguments: Any) -> float | None:
        self.host_ns += US
        if function == "cuEventRecord":
            arguments[0]["gpu_ns"] = self.host_ns * (1 + self.fast)
            return None
        assert function == "cuEventElapsedTime"
        return (arguments[1]["gpu_ns"] - arguments[0]["gpu_ns"]) / 1e6

    def is_over(self, event: dict[str, float]) -> bool:
        assert event
        self.queries += 1
        self.host_ns += US
        return not self.busy


def happened(clocks: Clocks) -> tuple[dict[str, float], int]:
    """Return an event and when it happened on the host's clock."""
    event = clocks.event()
    clocks.call("cuEventRecord", event)
    return event, clocks.host_ns


@pytest.mark.parametrize("fast", [0.0, 20e-6, -50e-6])
def test_how_far_times_may_be_off_holds_also_for_clocks_that_move_apart(fast: float) -> None:
    clocks = Clocks(fast)
    times = EventTimes(clocks)  # type: ignore[arg-type]
    worst_ns = 0
    for _ in range(20):
        clocks.host_ns += SECOND_NS // 3
        event, at_ns = happened(clocks)
        worst_ns = max(worst_ns, abs(times.at_ns(event) - at_ns))
    assert worst_ns <= times.uncertain_ns
    apart_ns = abs(fast) * SECOND_NS * 4 / 3
    assert times.uncertain_ns <= apart_ns + 10 * US


def test_a_gpu_that_is_busy_is_not_asked_again_at_once_and_its_times_stay() -> None:
    clocks = Clocks(0.0)
    times = EventTimes(clocks)  # type: ignore[arg-type]
    clocks.host_ns += 2 * SECOND_NS
    clocks.busy, before = True, clocks.queries
    event, at_ns = happened(clocks)
    for _ in range(1000):
        assert abs(times.at_ns(event) - at_ns) <= times.uncertain_ns
    assert clocks.queries - before <= 50  # one try in 10 ms, and these were 2
    clocks.busy = False
    clocks.host_ns += SECOND_NS
    before = clocks.queries
    times.at_ns(event)
    assert clocks.queries == before + 1

"""What figures of one search call things: what became of a point, the answer, the title."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.artifacts.trace import Trace
from edgetune.drawing import BLUE, GREY, PURPLE, VERMILLION
from edgetune.search.figures.points import Spot, Standing

STANDINGS: Mapping[Standing, tuple[str, str, str]] = {
    "within": ("within budget", BLUE, "o"),
    "over": ("over the power budget", VERMILLION, "s"),
    "late": ("misses latency, rate or room", PURPLE, "D"),
    "unknown": ("cannot be judged", GREY, "h"),
    "failed": ("failed", GREY, "X"),
}
"""Label, colour and marker by what became of a point; all markers have room for a number inside."""


def title_of(trace: Trace) -> tuple[str, str]:
    """Return the two lines over a figure: where and whether simulated; how, what and how many points."""
    facts, rows = trace.header.conditions, trace.rows
    measured, known = (sum(row.source == source for row in rows) for source in ("measured", "known"))
    how = f"{facts['strategy']}: " if "strategy" in facts else ""
    where = str(facts.get("device") or "")
    head = f"SIMULATED: {where}" if trace.header.simulated else where
    what = " and ".join(dict.fromkeys(f"{row.workload} {row.task}" for row in rows))
    also = f", {known} known" if known else ""
    return head, f"{how}{what}, {measured} point{'s' * (measured != 1)} measured{also}"


def answer_lines(answer: Spot) -> list[str]:
    """Return what a legend says of the answer: its steps, its mode and its batch size."""
    steps = ", ".join(map(str, answer.steps))
    mode = str(answer.point.mode).split(", ")
    return [f"answer, step{'s' * (len(answer.steps) > 1)} {steps}:", *mode, f"batch {answer.point.batch_size}"]

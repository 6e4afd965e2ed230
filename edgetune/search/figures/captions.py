"""What figures of one search say in words: the title, and of the answer."""

from __future__ import annotations

from edgetune.artifacts.trace import Trace
from edgetune.search.figures.point import SearchPoint


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


def answer_lines(answer: SearchPoint) -> list[str]:
    """Return what a legend says of the answer: its steps, its mode and its batch size."""
    steps = ", ".join(map(str, answer.steps))
    mode = str(answer.point.mode).split(", ")
    return [f"answer, step{'s' * (len(answer.steps) > 1)} {steps}:", *mode, f"batch {answer.point.batch_size}"]

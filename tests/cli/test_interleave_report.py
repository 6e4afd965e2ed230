"""What is said of a run: the label always, figures unless quiet, and no ribbons on a narrow terminal."""

import io
import math
from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.run import Run, RunRow
from edgetune.cli.sections import TextSection
from edgetune.plotting.page import Section
from edgetune.stages.interleave.summary import summarise
from edgetune.workflows.report.run import compared, section, slower_than_planned


class Terminal(io.StringIO):
    def isatty(self):
        return True


def request(engine, k, wait_s, tenant="mobilenet"):
    due_s = k + 0.1
    return RunRow(engine, "request", k + wait_s, tenant, 0, float(k), float(k), due_s, k + wait_s <= due_s, k, 1, 1)


def step(engine, k, samples=16, tenant="resnet18"):
    row = RunRow(engine, "train", k + 0.9, tenant, started_s=k + 0.5, minibatch=k, batch_size=16, samples=samples)
    return replace(row, loss=2.0)


def run_of(rows, *, simulated=False):
    return Run(Header.new("run", 1, conditions={"device": "host", "simulated": simulated}), tuple(rows))


@pytest.fixture
def both():
    rows = [request(engine, k, wait_s) for engine, wait_s in (("managed", 0.05), ("native", 0.2)) for k in range(5)]
    rows += [step("managed", k) for k in range(4)] + [step("native", k) for k in range(5)]
    return run_of(rows)


def blocks(run):
    page = Section("run", "s1")
    section(run, page)
    return page.blocks


def said(run, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    section(run, TextSection(stream))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [120, 80, 60, 40])
def test_no_line_is_wider_than_the_terminal_and_no_word_is_broken(both, width, monkeypatch):
    lines = said(both, width, monkeypatch)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).replace(",", " ").replace(":", " ").split()
    assert words.count("mobilenet") == words.count("resnet18") == 2
    assert {"managed", "native", "violations", "samples/s", "answers", "trains", "idle"} <= set(words)


def test_engines_are_compared_with_native_at_any_position(both):
    (line,) = compared(summarise(both))
    assert line.startswith("managed beside native: 0 violations instead of 5, p99 50% of the budget instead of 200%")
    assert compared(summarise(run_of([step("managed", 0)]))) == []
    first, second = compared(summarise(run_of([step("streams", 0), step("managed", 0, 8), step("simulated", 0, 32)])))
    assert first == "managed beside streams: trains 0.50 times as fast"
    assert second == "simulated beside streams: trains 2.00 times as fast"


def test_several_jobs_are_compared_each_with_itself():
    rows = [
        step("native", 0, 10, "a"),
        step("native", 0, 10, "b"),
        step("managed", 0, 9, "a"),
        step("managed", 0, 8, "b"),
    ]
    assert compared(summarise(run_of(rows))) == ["managed beside native: trains 0.80 to 0.90 times as fast"]


def test_columns_of_which_nothing_is_known_are_left_out(both):
    first, second = [block for block in blocks(both) if block.kind == "table"]
    assert second.columns == ["engine", "answers>", "trains>", "both>", "idle>"]
    assert len(first.rows) == 4


def test_why_something_failed_is_said():
    rows = [step("managed", 0), replace(step("managed", 1), status="failed", reason="the loss is nan", loss=math.nan)]
    found = blocks(run_of(rows))
    assert "DIVERGED" in str(found[0].rows[0][-1])
    assert [block.text for block in found if block.kind == "note"][1] == "managed: resnet18 failed: the loss is nan"


def test_changes_during_a_run_are_reported():
    rows = [request("managed", 9, 0.5), RunRow("managed", "plan", 3.0, "mobilenet", batch_size=8)]
    assert next(block.text for block in blocks(run_of(rows)) if block.kind == "note") == "managed: 9.5 s, 1 plan"


def test_minibatches_slower_than_planned_are_reported():
    rows = [request("managed", k, 0.05) for k in range(5)] + [step("managed", k) for k in range(4)]
    for planned_s, words in (
        (0.2, ["managed: resnet18 took 400 ms per minibatch, planned 200 ms: measure it again"]),
        (0.35, []),
        (None, []),
    ):
        tenants = [{"name": "mobilenet", "task": "infer"}, {"name": "resnet18", "task": "train"}]
        tenants[1] |= {} if planned_s is None else {"minibatch_s": planned_s}
        run = run_of(rows)
        run = replace(run, header=replace(run.header, inputs={"tenants": tenants}))
        assert slower_than_planned(run, summarise(run)) == words
    replanned = replace(run, rows=(*run.rows, RunRow("managed", "plan", 1.0)))
    assert slower_than_planned(replanned, summarise(replanned)) == []

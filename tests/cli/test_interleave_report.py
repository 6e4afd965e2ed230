"""What is said of a run: the label always, figures unless quiet, and no ribbons on a narrow terminal."""

import io
from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.run import Run, RunRow
from edgetune.cli.sections import TextSection
from edgetune.stages.interleave.summary import summarise
from edgetune.workflows.report.run import compared, section


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


def said(run, width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    section(run, TextSection(stream))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [120, 40])
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

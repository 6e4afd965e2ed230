"""A sweep that was cut off anywhere and resumed gives the table of one that was not: noise, rounds and header."""

from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.stages.profiling.journal_lines import parse_lines
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import sweep
from edgetune.workflows.device_option import open_named
from edgetune.workloads.resolve import resolve

MODES = [Mode(cpu_cores=12, cpu_mhz=2201.6, gpu_mhz=mhz, mem_mhz=3199.0) for mhz in (318.75, 1300.5)]


@pytest.fixture(scope="module")
def run():
    workload = resolve("zoo:squeezenet")
    points = [Point(workload.name, "infer", size, mode) for mode in MODES for size in (1, 4)]

    def sweep_with(rounds, journal):
        device = open_named("twin:orin-agx?noise=on", None, seed=3)
        options = ProfileOptions(interleave_repeats=rounds, seed=3)
        return undated(sweep(device, workload, points, options, journal))

    return sweep_with


def undated(profile):
    """Return the rows and the header without when they came about, and in how many runs."""
    conditions = {**profile.header.conditions, "points_resumed": None}
    header = replace(profile.header, created="", conditions=conditions)
    return [replace(row, started=None) for row in profile.rows], header


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_sweep_killed_after_any_point_and_resumed_equals_an_uninterrupted_one(run, tmp_path, rounds):
    journal = tmp_path / "journal"
    whole = run(rounds, journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 2 + 4 * rounds
    for finished in range(len(lines)):
        for cut in (0, len(lines[finished]) // 2):
            journal.write_bytes(b"".join(lines[:finished]) + lines[finished][:cut])
            assert run(rounds, journal) == whole, f"{finished} lines and {cut} bytes"


def test_a_sweep_killed_at_any_byte_of_its_last_line_equals_an_uninterrupted_one(run, tmp_path):
    """A line that lacks any bytes at its end is none; where it is cut within a class of bytes, the sweep is resumed."""
    journal = tmp_path / "journal"
    whole = run(1, journal)
    content = journal.read_bytes()
    before = content[: content.rindex(b"\n", 0, -1) + 1]
    first, last = content[: content.index(b"\n") + 1], content[len(before) :]
    header = parse_lines(first)[0]
    for size in range(len(last)):
        assert parse_lines(first + last[:size]) == (header, len(first))
    for size in (len(before), len(before) + 1, len(before) + 9, len(before) + 10, len(content) - 1, len(content)):
        journal.write_bytes(content[:size])
        assert run(1, journal) == whole, size


def test_every_line_twice_and_resumed_equals_an_uninterrupted_sweep(run, tmp_path):
    journal = tmp_path / "journal"
    whole = run(2, journal)
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], *(line for line in lines[2:-2] for _ in range(2))]))
    assert run(2, journal) == whole

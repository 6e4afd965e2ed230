"""A sweep that was cut off anywhere and resumed gives the table of one that was not: noise, rounds and header."""

from dataclasses import replace

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.sweep import sweep
from edgetune.workflows.device_option import open_named
from edgetune.workloads.resolve import resolve
from fakes.journals import entries_in, keep_first

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
    content = journal.read_bytes()
    assert len(entries_in(journal)) == 4 * rounds
    for finished in range(4 * rounds):
        journal.write_bytes(content)
        keep_first(journal, finished)
        assert run(rounds, journal) == whole, f"{finished} points"

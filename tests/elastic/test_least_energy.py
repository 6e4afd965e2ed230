"""The choice of power mode, policy and room by energy: power by hand, and the search on made-up figures."""

from __future__ import annotations

from dataclasses import replace

import pytest
from kernel_scenes import FREE, GPU, call, task

from edgetune.artifacts.mode import Mode
from edgetune.stages.elastic.energy import Choice, GpuInMode, confirmed, least_energy, try_out

AT = GpuInMode(Mode(gpu_mhz=1000), GPU, FREE, rest_w=10.0, active_w=5.0, flop_j=1e-11, byte_j=1e-10)


def test_power_is_rest_activity_and_what_is_computed_and_moved() -> None:
    # 8 blocks of 512 threads, one at a time on each of 2 multiprocessors: 1e8 operations at 1e12 a second
    kernel = replace(call(blocks=8, threads=512, flop=1e8, drawn=1e3), waits_per_block=0)
    urgent = task("urgent", kernel, priority=1, arrivals="uniform:100/s", deadline_s=1e-3)
    normal = task("normal", kernel, arrivals="uniform:100/s")
    found = try_out(AT, (urgent, normal), "sequential", 1.0, duration_s=1.0)
    assert found.feasible
    assert found.critical_per_s == pytest.approx(100, rel=0.03)
    launches_per_s = 100 + found.normal_per_s
    busy = launches_per_s * 400e-6
    worked_w = launches_per_s * 8 * (1e8 * 1e-11 + 1e3 * 1e-10)
    assert found.power_w == pytest.approx(10 + 5 * busy + worked_w, rel=0.03)
    assert found.energy_j == pytest.approx(found.power_w / found.normal_per_s)


def test_late_requests_and_those_left_behind_are_not_feasible() -> None:
    kernel = call(blocks=8, threads=512, flop=1e8)
    urgent = task("urgent", kernel, priority=1, arrivals="uniform:100/s", deadline_s=1e-6)
    assert try_out(AT, (urgent, task("normal", kernel)), "elastic", 1.0, duration_s=0.1).late >= 9
    calm = replace(urgent, deadline_s=1.0)
    flooded = try_out(AT, (calm, task("normal", kernel, arrivals="uniform:10000/s")), "elastic", 1.0, duration_s=0.1)
    assert flooded.late == 0
    assert flooded.unanswered > 100
    assert not flooded.feasible


def test_less_room_lets_critical_requests_wait_less() -> None:
    normal = task("normal", call(blocks=2, threads=1024, block_us=5000))
    urgent = task(
        "urgent", call(blocks=2, threads=1024, block_us=100), priority=1, arrivals="uniform:50/s", deadline_s=1
    )
    whole, half = (try_out(AT, (urgent, normal), "elastic", room, duration_s=0.2) for room in (1.0, 0.5))
    assert half.latency_s < whole.latency_s


MODES = [
    Mode(cpu_cores=cores, cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem)
    for cores in (4, 8) for cpu in range(500, 2001, 100) for gpu in range(300, 1301, 100) for mem in (665, 2133, 3199)
]  # fmt: skip


def _made(mode: Mode, policy: str, room: float) -> Choice:
    """Return a choice whose energy is least at 900 MHz of the GPU, which the deadline allows by one policy only."""
    gpu = mode.gpu_mhz or 0.0
    power_w = 10 + abs(gpu - 900) / 100 + (mode.cpu_mhz or 0) / 1e3 + (mode.mem_mhz or 0) / 1e4 + (mode.cpu_cores or 0)
    late = int(gpu < (800 if policy == "elastic" else 1100))
    return Choice(mode, policy, room, 1e-3, late, 10.0, 10.0 * room, 0, power_w)


def test_the_search_finds_the_optimum_of_smooth_figures_with_few_trials() -> None:
    plan = least_energy(MODES, ("sequential", "elastic"), (1.0, 0.5), _made)
    every = [_made(mode, policy, room) for mode in MODES for policy in ("sequential", "elastic") for room in (1.0, 0.5)]
    least = min((each for each in every if each.feasible), key=lambda each: each.energy_j)
    assert plan.best == least
    assert plan.best is not None
    assert plan.best.mode == Mode(cpu_cores=4, cpu_mhz=500, gpu_mhz=900, mem_mhz=665)
    assert len(plan.tried) < 0.15 * len(every)
    assert plan.combinations == len(every) / 2  # modes that differ in cores alone are one
    by_sequential = plan.best_by("sequential")
    assert by_sequential is not None
    assert by_sequential.mode.gpu_mhz == 1300


def test_nothing_feasible_has_no_best() -> None:
    plan = least_energy(MODES[:3], ("elastic",), (1.0,), lambda *words: replace(_made(*words), late=1))
    assert (plan.best, len(plan.tried) > 0, plan.combinations) == (None, True, 3)


def test_the_best_is_tried_again_until_a_choice_was_the_best_twice() -> None:
    slow, fast = Mode(gpu_mhz=300), Mode(gpu_mhz=900)
    readings = {slow: iter([9.0, 15.0]), fast: iter([10.0, 10.0])}  # the first one of the slow mode is low by chance

    def trial(mode: Mode, policy: str, room: float) -> Choice:
        return Choice(mode, policy, room, 1e-3, 0, 100, 10, 0, power_w=next(readings[mode]))

    plan = confirmed(least_energy([slow, fast], ["elastic"], [1.0], trial), trial)
    assert [(each.mode, each.runs, each.power_w) for each in plan.tried] == [(slow, 2, 12.0), (fast, 2, 10.0)]
    assert plan.best is plan.tried[1]


def test_a_deadline_missed_in_the_second_run_counts() -> None:
    lates = iter([0, 3])

    def trial(mode: Mode, policy: str, room: float) -> Choice:
        return Choice(mode, policy, room, 1e-3, next(lates), 100, 10, 0, power_w=10)

    plan = confirmed(least_energy([Mode()], ["elastic"], [1.0], trial), trial)
    assert plan.best is None
    assert plan.tried[0].late == 3


def test_power_limits_are_a_clock_too() -> None:
    limits = [Mode(power_limit_w=watts) for watts in (100, 150, 200, 250)]

    def trial(mode: Mode, policy: str, room: float) -> Choice:
        return Choice(mode, policy, room, 1e-3, 0, 100, 10, 0, power_w=(mode.power_limit_w or 0) + 1)

    plan = least_energy(limits, ["elastic"], [1.0], trial)
    assert plan.combinations == 4
    assert plan.best is not None
    assert plan.best.mode == limits[0]

"""The demands of a problem, against the formulas written out, and the offered points as data.

Budgets on columns of a server's answers, and the objective of tokens per joule.
"""

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read, write
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import COLUMN_BUDGETS, Problem
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j
from edgetune.cli.main import run
from edgetune.errors import InputError
from edgetune.stages.search.answer import NothingFeasibleError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.problem import Violation, judge, peak_latency_s, runs_back_to_back, validate
from edgetune.stages.search.space import Axis, Space, offered_space
from edgetune.stages.search.strategies.gmd_state import Bounds


def train_row(minibatch_s: float | None = 0.5, power_w: float | None = 20.0, **rest) -> ProfileRow:
    return ProfileRow("net", "train", 16, minibatch_s, gpu_mhz=1.0, power_w=power_w, **rest)


def infer_row(minibatch_s: float = 0.05, power_w: float | None = 20.0, batch_size: int = 4) -> ProfileRow:
    return ProfileRow("net", "infer", batch_size, minibatch_s, gpu_mhz=1.0, power_w=power_w)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 0.0])
@pytest.mark.parametrize("field", ["power_budget_w", "latency_budget_s", "arrival_rate_per_s"])
def test_budgets_that_are_no_positive_number_are_refused(field: str, bad: float):
    with pytest.raises(InputError, match=field):
        validate(Problem("infer", **{"arrival_rate_per_s": 60.0, field: bad}))


@pytest.mark.parametrize("margin", [math.nan, -0.1, 1.0, 2.0])
def test_margins_outside_the_budget_are_refused(margin: float):
    with pytest.raises(InputError, match="margin"):
        validate(Problem("train", power_budget_w=30.0, margin=margin))


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem("train+infer", power_budget_w=30.0), "no arrival rate"),
        (Problem("infer+infer", latency_budget_s=1.0), "no arrival rate"),
        (Problem("accuracy"), "needs the epochs"),
        (Problem("accuracy", epochs_to_target=((8, 0.0),)), "epochs at batch size 8 are 0"),
        (Problem("accuracy", arrival_rate_per_s=1.0, epochs_to_target=((8, 1.0),)), "neither a latency budget"),
        (Problem("train", background="net"), "no second workload"),
        (Problem("swim"), "no problems of kind"),
        (Problem("train+infer", arrival_rate_per_s=1.0, objective="energy"), "has no objective"),
    ],
)
def test_missing_and_superfluous_parts_of_a_problem_are_named(problem, message):
    with pytest.raises(InputError, match=message):
        validate(problem)


def test_time_to_accuracy_is_time_per_sample_times_the_epochs_of_the_batch_size():
    problem = Problem("accuracy", epochs_to_target=((8, 10.0), (16, 12.0)))
    row = train_row(2.0, 20.0)
    assert judge(problem, replace(row, batch_size=8)).objective == pytest.approx(-2.0 / 8 * 10)
    assert judge(problem, replace(row, batch_size=16)).objective == pytest.approx(-2.0 / 16 * 12)
    energy = replace(problem, objective="energy")
    assert judge(energy, replace(row, batch_size=8)).objective == pytest.approx(-20.0 * 2.0 / 8 * 10)


def test_without_an_arrival_rate_batches_run_back_to_back():
    for problem in (Problem("infer"), Problem("infer", objective="throughput", latency_budget_s=0.1)):
        validate(problem)
        assert runs_back_to_back(problem)
        assert peak_latency_s(problem, 16, 0.05) == 0.05
    late = judge(Problem("infer", latency_budget_s=0.04), infer_row())
    assert late.violations == (Violation("latency", 0.05, 0.04),)
    assert judge(Problem("infer", latency_budget_s=0.05), infer_row()).objective == -0.05
    stated = Problem("infer", 20.0, 0.08, 60.0, margin=0.05)
    validate(stated)
    assert not runs_back_to_back(stated)
    assert not runs_back_to_back(Problem("train"))


def test_throughput_is_samples_per_second_and_power_must_be_within_budget():
    judgement = judge(Problem("train", power_budget_w=20.0), train_row())
    assert (judgement.objective, judgement.feasible, judgement.violations) == (16 / 0.5, True, ())
    over = judge(Problem("train", power_budget_w=19.9), train_row())
    assert over.feasible is False
    assert over.violations == (Violation("power", 20.0, 19.9),)


def test_a_margin_keeps_its_share_of_the_budget_free():
    assert judge(Problem("train", power_budget_w=25.0, margin=0.2), train_row()).feasible is True
    assert judge(Problem("train", power_budget_w=25.0, margin=0.21), train_row()).feasible is False
    tight = Problem("infer", latency_budget_s=0.1, arrival_rate_per_s=100.0, margin=0.3)
    assert judge(tight, infer_row(minibatch_s=0.0399)).feasible is True  # 3 / 100 + 0.0399 < 0.07
    assert judge(tight, infer_row(minibatch_s=0.0401)).feasible is False


def test_peak_latency_is_the_wait_for_the_batch_and_its_run():
    problem = Problem("infer", arrival_rate_per_s=60.0)
    assert peak_latency_s(problem, 16, 0.08) == pytest.approx(15 / 60 + 0.08)
    assert peak_latency_s(problem, 1, 0.08) == 0.08
    assert judge(problem, infer_row(0.05, batch_size=4)).objective == pytest.approx(-(3 / 60 + 0.05))


def test_the_device_must_keep_up_with_arrivals():
    problem = Problem("infer", arrival_rate_per_s=60.0)
    assert judge(problem, infer_row(4 / 60, batch_size=4)).feasible is True
    late = judge(problem, infer_row(0.07, batch_size=4))
    assert late.violations == (Violation("rate", 0.07, 4 / 60),)


def test_energy_and_energy_delay_per_sample():
    row = train_row(0.5, 20.0)  # 10 J a minibatch of 16, 1/32 s a sample
    assert judge(Problem("train", objective="energy"), row).objective == -10 / 16
    assert judge(Problem("train", objective="energy-delay"), row).objective == -10 / 16 / 32
    measured = train_row(0.5, 20.0, energy_j=9.0)
    assert judge(Problem("train", objective="energy"), measured).objective == -9 / 16
    assert energy_per_minibatch_j(measured) == 9.0
    served = Problem("infer", arrival_rate_per_s=60.0, objective="energy-delay")
    assert judge(served, infer_row(0.05, 20.0, 4)).objective == pytest.approx(-(1.0 / 4) * (3 / 60 + 0.05))


def test_without_power_a_budget_cannot_be_told_but_a_pure_speed_search_can():
    blind = judge(Problem("train", power_budget_w=30.0), train_row(power_w=None))
    assert (blind.feasible, blind.objective, blind.unknown) == (None, 32.0, "no power was measured")
    assert judge(Problem("train"), train_row(power_w=None)).feasible is True
    energy = judge(Problem("train", objective="energy"), train_row(power_w=None, reason="two samples only"))
    assert (energy.feasible, energy.objective, energy.unknown) == (None, None, "two samples only")
    assert judge(Problem("train", objective="energy"), train_row(power_w=None, energy_j=8.0)).objective == -0.5


@pytest.mark.parametrize("status", ["failed", "throttled", "drifted"])
def test_rows_that_are_not_ok_are_not_judged(status):
    assert judge(Problem("train"), train_row(status=status, reason="too hot")).unknown == "too hot"
    assert judge(Problem("train"), train_row(status=status)).unknown == f"the measurement {status}"


def test_only_points_of_the_task_and_of_one_workload_are_offered():
    train, infer = Point("net", "train", 16, Mode(gpu_mhz=1.0)), Point("net", "infer", 1, Mode(gpu_mhz=1.0))
    assert offered_space(Problem("train"), [infer, train]).points == (train,)
    with pytest.raises(InputError, match="no train points"):
        offered_space(Problem("train"), [infer])
    with pytest.raises(InputError, match="several workloads: net, other"):
        offered_space(Problem("train"), [train, Point("other", "train", 16, Mode(gpu_mhz=1.0))])


@given(
    minibatch_s=st.floats(allow_nan=True, allow_infinity=True) | st.none(),
    power_w=st.floats(allow_nan=True, allow_infinity=True) | st.none(),
    budget_w=st.floats(0.1, 1e4) | st.none(),
    margin=st.floats(0, 0.99),
)
def test_feasible_means_a_real_measurement_within_budget(minibatch_s, power_w, budget_w, margin):
    problem = Problem("train", power_budget_w=budget_w, margin=margin)
    judgement = judge(problem, train_row(minibatch_s, power_w))
    if judgement.feasible:
        assert minibatch_s > 0
        assert math.isfinite(minibatch_s)
        assert judgement.objective is not None
        assert budget_w is None or 0 < power_w <= budget_w * (1 - margin)
    else:
        assert judgement.violations or judgement.unknown


POINTS = [
    Point("net", "train", 16, Mode(gpu_mhz=gpu, mem_mhz=mem)) for gpu, mem in product((9.0, 1.0, 5.0), (2.0, 4.0))
]


def test_axes_are_the_knobs_that_vary_ascending():
    space = Space.of(POINTS)
    assert space.axes == (Axis("gpu_mhz", (1.0, 5.0, 9.0)), Axis("mem_mhz", (2.0, 4.0)))
    assert space.at((2, 0)) == Point("net", "train", 16, Mode(gpu_mhz=9.0, mem_mhz=2.0))
    assert all(space.at(space.levels[point]) == point for point in POINTS)


def test_the_order_offered_and_duplicates_change_nothing():
    assert Space.of(POINTS) == Space.of(POINTS[::-1] + POINTS[:2])


def test_no_points_and_knobs_set_in_some_points_only_are_refused():
    with pytest.raises(InputError, match="no points were offered"):
        Space.of([])
    with pytest.raises(InputError, match="some points set mem_mhz"):
        Space.of([*POINTS, Point("net", "train", 16, Mode(gpu_mhz=1.0))])


def three_knobs() -> Space:
    knobs = product((1.0, 2.0, 3.0), (1.0, 2.0, 3.0), (1.0, 2.0, 3.0))
    return Space.of(Point("net", "train", 1, Mode(cpu_mhz=c, gpu_mhz=g, mem_mhz=m)) for c, g, m in knobs)


def test_a_point_over_budget_rules_out_those_above_it_at_the_same_memory_clock():
    bounds = Bounds(three_knobs(), limit_w=20.0)
    bounds.note((1, 1, 1), 21.0)
    assert bounds.rules_out((1, 1, 1))
    assert bounds.rules_out((2, 1, 1))
    assert bounds.rules_out((2, 2, 1))
    assert not bounds.rules_out((2, 2, 2))  # a faster memory may draw less
    assert not bounds.rules_out((0, 2, 1))


def test_without_power_only_a_search_without_a_budget_learns():
    blind, free = Bounds(three_knobs(), limit_w=20.0), Bounds(three_knobs(), limit_w=float("inf"))
    for bounds in (blind, free):
        bounds.note((2, 2, 2), None)
    assert not blind.rules_out((0, 0, 0))
    assert free.rules_out((0, 0, 0))


SIZES, CLOCKS = (1, 2, 4, 8), (300.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1100.0, 1200.0)


def answers(batch_size: int, gpu_mhz: float) -> ProfileRow:
    """Return the row of a server: prompts wait for compute, tokens for memory; 32 tokens in each answer."""
    ttft_s, token_s = 0.1 * batch_size**0.8 * 1000 / gpu_mhz, 0.02 * (1 + 0.2 * batch_size) * (1000 / gpu_mhz) ** 0.5
    minibatch_s, power_w = ttft_s + 31 * token_s, 8 + 10 * (gpu_mhz / 1000) ** 2.5
    return ProfileRow(
        "m:p128:o32", "infer", batch_size, minibatch_s, gpu_mhz=gpu_mhz, power_w=power_w,
        energy_j=power_w * minibatch_s, ttft_p95_s=ttft_s, token_p95_s=token_s, output_tokens=32.0,
        tokens_per_s=32 * batch_size / minibatch_s,
    )  # fmt: skip


ROWS = {row.point: row for size in SIZES for mhz in CLOCKS for row in [answers(size, mhz)]}
BUDGETS = Problem("infer", objective="throughput", ttft_budget_s=0.3, token_budget_s=0.05)


def best(problem: Problem) -> ProfileRow:
    """Return the best row by another way: a filter and a maximum."""
    kept = [row for row in ROWS.values() if (row.ttft_p95_s or 9) <= 0.3 and (row.token_p95_s or 9) <= 0.05]
    if problem.objective == "tokens-per-joule":
        return max(kept, key=lambda row: (row.tokens_per_s or 0) / (row.power_w or 1))
    return max(kept, key=lambda row: row.batch_size / (row.minibatch_s or 1))


@pytest.mark.parametrize("objective", ["throughput", "tokens-per-joule"])
@pytest.mark.parametrize("strategy", ["exhaustive", "roofline"])
def test_best_point_within_both_budgets(strategy: str, objective: str) -> None:
    problem = replace(BUDGETS, objective=objective)
    found = run_search(problem, ROWS, ROWS.__getitem__, SearchSettings(strategy))
    wanted, figures = best(problem), found.plan.measured
    if strategy == "exhaustive":
        assert (found.plan.configuration.batch_size, found.plan.configuration.mode) == (wanted.batch_size, wanted.mode)
    good = figures.throughput_per_s if objective == "throughput" else figures.tokens_per_j
    ideal = judge(problem, wanted).objective
    assert good is not None
    assert ideal is not None
    assert good >= 0.97 * ideal
    assert (figures.ttft_p95_s or 9) <= 0.3
    assert (figures.token_p95_s or 9) <= 0.05


def test_strategies_that_do_not_know_columns_refuse_them() -> None:
    with pytest.raises(InputError, match="gmd does not know --ttft-budget"):
        run_search(
            replace(BUDGETS, objective=None, arrival_rate_per_s=1.0), ROWS, ROWS.__getitem__, SearchSettings("gmd")
        )
    with pytest.raises(InputError, match="nn does not know --objective tokens-per-joule"):
        run_search(Problem("infer", objective="tokens-per-joule"), ROWS, ROWS.__getitem__, SearchSettings("nn"))


def test_missing_columns_cannot_be_judged() -> None:
    row = replace(answers(1, 300.0), ttft_p95_s=None, output_tokens=None)
    assert judge(BUDGETS, row).feasible is None
    assert judge(BUDGETS, row).unknown == "ttft_p95_s was not measured"
    assert judge(replace(BUDGETS, ttft_budget_s=None), row).feasible is True
    assert judge(BUDGETS, replace(row, ttft_s=0.2)).feasible is True
    assert judge(BUDGETS, replace(row, token_p95_s=0.06)).feasible is False
    assert judge(Problem("infer", objective="tokens-per-joule"), row).unknown == "no tokens were counted"


def test_the_margin_counts() -> None:
    row = answers(1, 1000.0)
    assert judge(Problem("infer", ttft_budget_s=0.105), row).feasible is True
    assert judge(Problem("infer", ttft_budget_s=0.105, margin=0.1), row).feasible is False


def test_nothing_within_the_budget_names_the_option_that_helps() -> None:
    with pytest.raises(NothingFeasibleError) as caught:
        run_search(replace(BUDGETS, ttft_budget_s=0.05), ROWS, ROWS.__getitem__, SearchSettings("exhaustive"))
    assert "no offered point sends the first token within 50 ms" in str(caught.value)
    assert "the nearest of all 40 sends the first token within 83.3 ms" in str(caught.value)
    assert caught.value.hint == "--ttft-budget 84ms"


def test_two_workloads_have_none() -> None:
    with pytest.raises(InputError, match="two workloads have no --ttft-budget"):
        validate(Problem("train+infer", arrival_rate_per_s=1.0, ttft_budget_s=1.0))


def test_every_row_of_the_table_is_a_field_and_columns() -> None:
    for name, budget in COLUMN_BUDGETS.items():
        assert budget.field.startswith(f"{name}_budget_")
        assert set(budget.columns) <= set(ProfileRow.__dataclass_fields__)
        with pytest.raises(InputError):
            validate(Problem("infer", **{budget.field: -1.0}))


def test_memory_is_a_budget_like_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [replace(row, memory_peak_bytes=(200 + 100 * row.batch_size) << 20) for row in ROWS.values()]
    table, plan = str(tmp_path / "s.parquet"), str(tmp_path / "p.yaml")
    write(Profile(Header.new(KIND, VERSION), tuple(rows)), table)
    for strategy in ("exhaustive", "roofline"):
        words = ["search", table, "--strategy", strategy, "-o", plan, "--force", "--objective", "throughput"]
        assert run([*words, "--memory-budget", "650MiB", "--top", "3"]) == 0
        found = read(Plan, plan)
        assert found.configuration.batch_size == 4
        assert found.measured.memory_peak_bytes == 600 << 20
    assert run([*words, "--memory-budget", "100MiB"]) == 3
    said = capsys.readouterr().err
    assert "600 MiB" in said
    assert "stays within 100 MiB of memory" in said
    assert "--memory-budget 300MiB" in said

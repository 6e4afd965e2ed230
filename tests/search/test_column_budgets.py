"""Budgets on columns of a server's answers, and the objective of tokens per joule."""

from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.io import read, write
from edgetune.artifacts.plan import Plan
from edgetune.artifacts.problem import COLUMN_BUDGETS, Problem
from edgetune.artifacts.profile import KIND, VERSION, Profile, ProfileRow
from edgetune.cli.main import run
from edgetune.errors import InputError
from edgetune.stages.search.answer import NothingFeasibleError
from edgetune.stages.search.driver import SearchSettings, run_search
from edgetune.stages.search.problem import judge, validate

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

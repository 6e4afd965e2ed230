"""The benchmark's cases are feasible, and its figures are what their names say."""

import pytest
from schedule_optimum import random_case, solve, tell

from edgetune.stages.schedule.network import least_budget_bytes

pytest.importorskip("ortools", reason="the optimum needs OR-Tools: pip install 'edgetune[optimum]'")


def test_cases_can_be_run_and_differ():
    cases = [random_case(seed, None) for seed in range(50)]
    assert all(max(map(least_budget_bytes, case.networks.values())) <= case.budget_bytes for case in cases)
    assert {case.workers for case in cases} == {1, 2, 3, 4}
    assert {len(case.networks) for case in cases} == {2, 3}
    assert random_case(7, None) == random_case(7, None) != random_case(8, None)


@pytest.mark.parametrize("streams", [None, 1])
def test_a_case_and_its_table(streams, capsys):
    result = solve(1, streams=streams, limit_s=2.0)
    assert result.bound_ns <= result.best_ns <= result.policies_ns["reuse"]
    assert result.ratio("optimum", result.best_ns) == 1.0
    assert result.followed_ns <= result.best_ns + 1
    tell([result])
    printed = capsys.readouterr().out
    assert printed.startswith("1 cases, ")
    assert "reuse is furthest from the best that was found at case 1 (" in printed

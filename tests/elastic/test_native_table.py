"""Decisions of compiled tables are those of the policies, and the comparison finds mutants of the evaluator."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.elastic_histories import compared
from edgetune.errors import DeviceError, InputError
from edgetune.stages.elastic.native import build, table
from edgetune.stages.elastic.native.build import HERE, compile_native, load_library
from edgetune.stages.elastic.native.table import compile_policy
from edgetune.stages.elastic.policies import elastic
from edgetune.stages.elastic.policies.barrier import Barrier
from edgetune.stages.elastic.policies.elastic import Elastic
from edgetune.stages.elastic.work import GpuTask, KernelSequence
from edgetune.testing.elastic_histories import CALLS, GPUS

HISTORIES = 250


@pytest.mark.parametrize("policy", ["elastic", "multistream", "sequential"])
def test_a_compiled_policy_decides_as_the_policy(policy: str) -> None:
    seen = compared(policy, HISTORIES, seed=1)
    assert seen["decisions"] > 5000
    if policy == "elastic":
        assert seen["pieces"] > 3000
        assert seen["beside critical kernels"] > 300


def test_it_decides_alike_where_the_limit_of_pieces_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (elastic, table):
        monkeypatch.setattr(module, "MOST", 3)
    assert compared("elastic", HISTORIES, seed=2)["pieces"] > 3000


MUTANTS = {
    "ties by order alone": ("rank{states[at].served_s, states[at].in_flight, at}", "rank{states[at].served_s, 0, at}"),
    "no fair share": ("rank{states[at].served_s, states[at].in_flight, at}", "rank{0.0, states[at].in_flight, at}"),
    "the last of equals": ("if (rank > last && rank < first)", "if (rank > last && (chosen == table.tasks || true))"),
    "one deeper": ("deep < table.depth", "deep <= table.depth"),
    "one more": ("deep >= table.most", "deep > table.most"),
    "the oldest counts": ("beside || states[at].piece[place].number != oldest", "true"),
    "enough is not enough": ("counted_s >= table.launch_s", "counted_s > table.launch_s"),
    "a limit is above": ("limit.threads < than", "limit.threads <= than"),
    "blocks are not counted": ("critical_blocks += states[at].running_blocks % table.sm_count;", ""),
    "two beside": ("if (beside && there > 1) return kNone;", ""),
    "the last chain": ("table.task[at].priority > above", "table.task[at].priority >= above"),
    "more than is left": ("std::min(shape.count, left)", "shape.count"),
    "no original": ("blocks = 0;\n    return {kPiece", "blocks += 0;\n    return {kPiece"),
    "turns are not whole": ("std::ceil(count / std::max", "(count / std::max"),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_comparison_finds_mutants(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right, wrong = MUTANTS[mutant]
    source = (HERE / "decide.cpp").read_text()
    assert source.count(right) == 1

    def mutated(folder):
        (folder / "decide.cpp").write_text(source.replace(right, wrong))
        return compile_native(folder / "mutant.so", [folder / "decide.cpp"], ["-shared", "-fPIC", "-O0"])

    if mutant == "one more":
        for module in (elastic, table):
            monkeypatch.setattr(module, "MOST", 3)
    library = load_library(mutated)
    with pytest.raises(AssertionError, match="where the policy decides"):
        compared("elastic", 4 * HISTORIES, seed=2, library=library)


def test_a_policy_without_a_table_is_refused() -> None:
    task = GpuTask("a", KernelSequence("a", CALLS[:1]))
    with pytest.raises(InputError, match="policy barrier has no table of decisions"):
        compile_policy(Barrier(), [task], GPUS[0])


def test_a_table_has_a_row_for_every_leftover() -> None:
    calls = [replace(CALLS[4], elastic=elastic_) for elastic_ in (True, False)]
    tasks = [GpuTask("a", KernelSequence("a", calls)), GpuTask("b", KernelSequence("b", calls), priority=1)]
    made = compile_policy(Elastic(), tasks, GPUS[2]).table
    rows = [made.rows[place] for place in range(2 * (GPUS[2].sm_count + 1))]
    assert rows == sorted(rows), "none of the critical task"
    assert made.calls[1].row == GPUS[2].sm_count + 1


def test_without_a_compiler_there_are_two_lines(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"the native launcher needs g\+\+") as caught:
        build.compile_native(tmp_path / "native.so", [HERE / "decide.cpp"])
    assert "leave out --launcher native" in caught.value.hint


def test_a_compiler_that_fails_says_why(tmp_path) -> None:
    (tmp_path / "wrong.cpp").write_text("int main() { return nothing; }")
    with pytest.raises(DeviceError, match="nothing"):
        build.compile_native(tmp_path / "program", [tmp_path / "wrong.cpp"], [])

"""Every kernel of the corpus, made elastic: equal bits in every way that it can be run."""

from __future__ import annotations

import pytest
from kernel_corpus import BRIEF, NAMES, source, trials

from edgetune.stages.elastic.cpu_equivalence import Matrix, Verdict, check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

GRID_ONLY = {
    "async_copies": "async-copy",
    "vote_loops": "vote-barrier",
    "flag_ends": "helper-barrier",
    "groups_handed_on": None,
    "helper_barrier": "helper-barrier",
    "shadowed": "shadowed",
    "shared_waits": "shared-wait",
    "volatile_shared": "volatile-shared",
    "vote_barriers": "vote-barrier",
}
"""Kernels whose block is left alone, and the code of the reason; ``None`` where there are several."""


def verdicts(name: str, matrix: Matrix) -> tuple[Verdict, ...]:
    made = transform(source(name), f"{name}.cu", persistent=True)
    return check(made, trials(name), name=f"{name}.cu", matrix=matrix)


def expect_equal(found: tuple[Verdict, ...]) -> None:
    assert found
    for verdict in found:
        assert verdict.reason == ""
        assert verdict.answer == "equal"
        assert verdict.forms >= 2
        assert verdict.sequences >= 3


@pytest.mark.parametrize("name", NAMES)
def test_forms_do_what_the_original_does(name: str) -> None:
    expect_equal(verdicts(name, BRIEF))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_forms_do_what_the_original_does_in_many_more_ways(name: str) -> None:
    expect_equal(verdicts(name, Matrix(cuts=6, seed=7)))


@pytest.mark.parametrize("name", NAMES)
def test_blocks_are_elastic_too_but_for_a_reason(name: str) -> None:
    for elastic in transform(source(name), f"{name}.cu").kernels:
        levels = {variant.level for variant in elastic.variants}
        assert "grid" in levels, elastic.refusals
        if name in GRID_ONLY:
            assert GRID_ONLY[name] is None or {refusal.code for refusal in elastic.refusals} == {GRID_ONLY[name]}
            assert "block" not in levels
        else:
            assert "block" in levels, elastic.refusals


def test_kernels_without_forms_are_left_out() -> None:
    text = """
// launch good grid=2 block=8 a=int32[16]
__global__ void good(int *a) { a[blockIdx.x * 8 + threadIdx.x] += 1; }
// launch refused grid=2 block=8 a=int32[16]
__global__ void refused(int *a) {
    static int calls;
    a[blockIdx.x * 8 + threadIdx.x] = ++calls;
}
"""
    verdicts = check(transform(text, "two.cu"), sample_launches_in(text, "two.cu"), matrix=BRIEF)
    assert [(verdict.kernel, verdict.answer) for verdict in verdicts] == [("good", "equal")]

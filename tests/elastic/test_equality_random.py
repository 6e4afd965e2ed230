"""Kernels made by chance: what is made elastic of them has equal bits in every way it can be run."""

import pytest
import random_kernels
from ptx_corpus import made

from edgetune.stages.elastic.cpu_equivalence import Matrix, check
from edgetune.stages.elastic.sample_launches import REVERSE, chance, sample_launches_in

KERNELS = 6
SHORT = Matrix(schedules=(REVERSE, chance(2)), cuts=0, most=1)
"""The two orders in which warps run ahead of others."""


def expect_equal(seed: int) -> None:
    text = random_kernels.source(seed, KERNELS)
    done = made(text, persistent=True)
    assert any(variant.level == "block" for elastic in done.kernels for variant in elastic.variants)
    found = check(done, sample_launches_in(text, "random.cu"), name="random.ptx", matrix=SHORT)
    assert {verdict.reason for verdict in found if verdict.answer != "no output"} == {""}  # by chance, one writes zeros
    assert sum(verdict.answer != "equal" for verdict in found) <= 1


def test_random_kernels_are_equal() -> None:
    expect_equal(0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 12))
def test_many_more_random_kernels_are_equal(seed: int) -> None:
    expect_equal(seed)

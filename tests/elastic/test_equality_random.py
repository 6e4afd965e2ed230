"""Kernels made by chance: whatever the generator accepts of them has equal bits in every way it can be run."""

from __future__ import annotations

import pytest
import random_kernels
from kernel_corpus import BRIEF

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.source.transform import transform

KERNELS = 6


def expect_equal(seed: int) -> None:
    text = random_kernels.source(seed, KERNELS)
    done = transform(text, "random.cu", persistent=True)
    assert any(variant.level == "block" for elastic in done.kernels for variant in elastic.variants)
    found = check(done, sample_launches_in(text, "random.cu"), name="random.cu", matrix=BRIEF)
    assert {verdict.reason for verdict in found if verdict.answer != "no output"} == {""}  # by chance, one writes zeros
    assert sum(verdict.answer != "equal" for verdict in found) <= 1


@pytest.mark.parametrize("seed", range(2))
def test_random_kernels_are_equal(seed: int) -> None:
    expect_equal(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 22))
def test_many_more_random_kernels_are_equal(seed: int) -> None:
    expect_equal(seed)

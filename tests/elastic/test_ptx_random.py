"""Random PTX kernels: what is made elastic runs to its end, and its form does what the original does."""

from collections import Counter

import pytest
from random_ptx import random_kernel

from edgetune.stages.elastic.cpu_equivalence import Matrix, check
from edgetune.stages.elastic.ptx import transform
from edgetune.stages.elastic.ptx.legality import Legality
from edgetune.stages.elastic.ptx.transform import transform_ptx
from edgetune.stages.elastic.sample_launches import FORWARD, REVERSE, chance, sample_launches_in

MATRIX = Matrix(schedules=(FORWARD, REVERSE, chance(1), chance(2)), cuts=1)


SHORT = Matrix(schedules=(REVERSE, chance(2)), cuts=0, most=2)


def answers(seeds: range, matrix: Matrix = MATRIX) -> Counter[str]:
    found = Counter[str]()
    for seed in seeds:
        text = random_kernel(seed)
        done = transform_ptx(text, f"{seed}.ptx", persistent=True)
        if not done.kernels[0].variants:
            found[done.kernels[0].refusals[0].code] += 1
            continue
        (verdict,) = check(done, sample_launches_in(text, "k"), name=f"{seed}.ptx", matrix=matrix, limit_s=5)
        assert (verdict.answer, verdict.reason) == ("equal", ""), seed
        found["equal"] += 1
    return found


def test_forms_of_random_kernels_do_what_the_originals_do() -> None:
    found = answers(range(24), SHORT)
    assert found["equal"] >= 3
    assert set(found) <= {"equal", "barrier-branch", "warp-branch"}


@pytest.mark.slow
def test_forms_of_many_more_random_kernels_do_so() -> None:
    assert answers(range(100, 300))["equal"] > 30


@pytest.mark.slow
def test_what_is_refused_would_often_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules refuse more than they must, but not for nothing: forms of many refused kernels differ or hang."""
    refused = [each for each in map(random_kernel, range(30)) if transform_ptx(each, "k.ptx").kernels[0].refusals]
    monkeypatch.setattr(transform, "legality", lambda *_: Legality())
    found = Counter(
        check(transform_ptx(each, "k.ptx"), sample_launches_in(each, "k"), matrix=MATRIX, limit_s=3)[0].answer
        for each in refused
    )
    assert found["different"] >= 2, found

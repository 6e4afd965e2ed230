"""Generated code, made wrong in one place: every such mutant is found out."""

from __future__ import annotations

import pytest
from kernel_corpus import BRIEF
from kernel_mutants import MUTANTS, SOURCES, generated, verdict_of

from edgetune.stages.elastic.cpu_equivalence import check
from edgetune.stages.elastic.sample_launches import sample_launches_in


@pytest.mark.parametrize("name", SOURCES)
def test_the_generated_code_itself_is_right(name: str) -> None:
    (verdict,) = check(generated(name), sample_launches_in(SOURCES[name], "k.cu"), matrix=BRIEF)
    assert verdict.reason == ""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_are_different(mutant: str) -> None:
    assert verdict_of(mutant).answer == "different"

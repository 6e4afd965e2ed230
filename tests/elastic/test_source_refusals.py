"""Every reason to refuse has an example, with what is told of it.

``python tests/elastic/test_source_refusals.py`` writes anew what is told.
"""

from pathlib import Path

import pytest

from edgetune.stages.elastic.kernel import Refusal
from edgetune.stages.elastic.source.diagnostics import RULES
from edgetune.stages.elastic.source.transform import transform

EXAMPLES = Path(__file__).parent / "refusals"


def told(code: str) -> str:
    """Return what is told of an example: a line for every refusal."""
    done = transform((EXAMPLES / f"{code}.cu").read_text(), f"{code}.cu", [EXAMPLES])
    found: list[Refusal] = [*(each for one in done.kernels for each in one.refusals), *done.refusals]
    return "".join(
        f"{each.line}: {each.kernel or 'the file'}: {each.level}: {each.code}: {each.reason} -> {each.remedy}\n"
        for each in found
    )


@pytest.mark.parametrize("code", RULES)
def test_each_reason_is_found_and_reported(code):
    found = told(code)
    assert f": {code}: " in found
    assert found == (EXAMPLES / f"{code}.txt").read_text()


@pytest.mark.parametrize("code", RULES)
def test_refused_kernels_are_left_unchanged(code):
    source = (EXAMPLES / f"{code}.cu").read_text()
    done = transform(source, f"{code}.cu", [EXAMPLES])
    for each in done.kernels:
        levels = {refused.level for refused in each.refusals}
        assert ("grid" in levels) == (not each.variants)
        if "block" in levels:
            assert [variant.level for variant in each.variants] in ([], ["grid"])
    if not any(each.variants for each in done.kernels):
        assert done.source == source


def test_examples_are_of_rules():
    assert {path.stem for path in EXAMPLES.glob("*.cu")} == set(RULES)


def test_reasons_and_remedies_are_one_line_each():
    for rule in RULES.values():
        assert "\n" not in rule.reason + rule.remedy
        assert not rule.remedy.endswith(".")


if __name__ == "__main__":
    for each in RULES:
        (EXAMPLES / f"{each}.txt").write_text(told(each))

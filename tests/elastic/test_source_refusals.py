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


@pytest.mark.parametrize(
    ("head", "body", "shared"),
    [
        ("volatile float *x", "s[threadIdx.x] = x[threadIdx.x]; __syncthreads(); x[threadIdx.x] = s[1];", False),
        ("float *x", "s[threadIdx.x] = x[threadIdx.x] + seen; __syncthreads(); x[threadIdx.x] = s[1];", False),
        ("float *x", "volatile float *v = s; v[threadIdx.x] = x[threadIdx.x]; x[0] = v[1];", True),
        ("volatile float *x", "s[1] = *x; x = s; x[threadIdx.x] = 1;", True),
        ("float *x", "s[1] = *x; x[0] = ((volatile float *)s)[1];", True),
    ],
)
def test_only_shared_memory_may_not_be_volatile(head, body, shared):
    text = f"__device__ volatile int seen;\n__global__ void k({head}) {{ __shared__ float s[64]; {body} }}\n"
    (kernel,) = transform(text, "k.cu").kernels
    assert ("volatile-shared" in {each.code for each in kernel.refusals}) is shared


if __name__ == "__main__":
    for each in RULES:
        (EXAMPLES / f"{each}.txt").write_text(told(each))

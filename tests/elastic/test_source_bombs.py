"""A source of less than 1 MB that would be read for minutes is refused in two lines."""

from __future__ import annotations

import pytest

from edgetune import limits
from edgetune.errors import InputError
from edgetune.stages.elastic.source.transform import transform

KERNEL = "__global__ void k(int *y) { y[blockIdx.x] = %s; }\n"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # in a callback of gc
@pytest.mark.parametrize(
    "source",
    [
        "#define M0 blockIdx.x\n" + "".join(f"#define M{n} M{n - 1}\n" for n in range(1, 10_000)) + KERNEL % "M9999",
        f"#define A blockIdx.x\n#define B {'A+' * 1000}0\n#define C {'B+' * 200}0\n" + KERNEL % "C",
    ],
)
def test_macros_in_macros_end_within_the_limit(source: str) -> None:
    refused = pytest.raises(InputError, match=r"reading x\.cu takes more seconds than the limit source_seconds allows")
    with limits.limited(source_seconds=1), refused:
        transform(source, "x.cu")


def test_macros_that_double_are_left_once_they_are_long() -> None:
    macros = "".join(f"#define A{n} A{n - 1} + A{n - 1}\n" for n in range(1, 60))
    made = transform("#define A0 blockIdx.x\n" + macros + KERNEL % "A59", "x.cu")
    assert len(made.source) < 1_000_000

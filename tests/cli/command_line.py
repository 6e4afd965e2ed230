"""What the tests of the command line share."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.strip().splitlines()


def assert_two_lines(ended: Ended, code: int) -> None:
    assert ended.code == code, ended.err
    assert "Traceback" not in ended.err
    assert len(ended.lines) == 2, ended.err
    assert ended.lines[0].startswith("error: ")
    assert ended.lines[1].startswith("hint: ")
    assert all(len(line) > len("error: x") for line in ended.lines)


def drawn(cases: Sequence[Any], count: int) -> list[Any]:
    """Return the cases as parameters, all slow but a seeded draw of ``count``; a tuple is the values of one case."""
    now = set(Random(8).sample(range(len(cases)), count))
    values = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*each, marks=() if n in now else pytest.mark.slow) for n, each in enumerate(values)]

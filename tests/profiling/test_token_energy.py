"""The energy of tokens of prompts and answers, from several lengths of requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import Profile, ProfileRow
from edgetune.cli.sections import TextSection
from edgetune.stages.profiling.token_energy import token_energies
from edgetune.workflows.report.sections import write_sections

LENGTHS = ((64, 16), (64, 64), (256, 16), (256, 64))


def measured(prompt: int, output: int, *, streams: int = 2, error: float = 0.0) -> ProfileRow:
    """Return a row in which a token takes 0.01 J in a prompt and 0.2 J in an answer."""
    energy_j = streams * (0.01 * prompt + 0.2 * output) * (1 + error)
    return ProfileRow(
        f"m:p{prompt}:o{output}", "infer", streams, 0.5, cpu_cores=2, energy_j=energy_j,
        prompt_tokens=float(prompt), output_tokens=float(output), tokens_per_s=streams * output / 0.5,
    )  # fmt: skip


@pytest.mark.parametrize("lengths", [LENGTHS, LENGTHS[1:3], LENGTHS[:2]])
def test_both_energies_are_recovered(lengths: tuple[tuple[int, int], ...]) -> None:
    (found,) = token_energies([measured(*pair) for pair in lengths])
    assert (found.prompt_j, found.output_j) == (pytest.approx(0.01), pytest.approx(0.2))
    assert found.residual == pytest.approx(0.0, abs=1e-9)
    assert found.pairs == len(lengths)


def test_the_residual_tells_of_errors() -> None:
    rows = [measured(*pair, error=error) for pair, error in zip(LENGTHS, (0.1, -0.1, -0.1, 0.1), strict=True)]
    (found,) = token_energies(rows)
    assert 0.03 < found.residual < 0.1
    assert found.output_j == pytest.approx(0.2, rel=0.1)


def test_streams_are_apart() -> None:
    found = token_energies([measured(*pair, streams=streams) for streams in (1, 2) for pair in LENGTHS])
    assert [each.row.batch_size for each in found] == [1, 2]


@pytest.mark.parametrize(
    "rows",
    [
        [measured(64, 16)],
        [measured(64, 16), measured(128, 32)],
        [replace(measured(*pair), energy_j=None) for pair in LENGTHS],
        [replace(measured(*pair), prompt_tokens=None) for pair in LENGTHS],
        [measured(64, 16, error=3.0), measured(256, 16)],
    ],
)
def test_there_is_none_if_nothing_tells(rows: list[ProfileRow]) -> None:
    assert not token_energies(rows)


def test_the_table_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows = tuple(measured(*pair) for pair in LENGTHS)
    write_sections(Profile(Header("profile", 1, "", ""), rows), TextSection())
    said = capsys.readouterr().out.splitlines()
    assert said[-2].split() == ["of", "a", "prompt", "of", "an", "answer", "residual", "lengths"]
    assert said[-1].split() == ["10.0", "mJ", "200", "mJ", "0.0%", "4"]

"""Every kept result says where, by what code and by what command it was made."""

import re
import subprocess
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "examples" / "results"


def rows() -> list[list[str]]:
    lines = [
        line for line in (RESULTS / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("| `")
    ]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_every_result_is_in_the_table():
    named = {name for file, *_ in rows() for name in re.findall(r"`([^`]+)`", file)}
    assert named == {path.name for path in RESULTS.iterdir()} - {"README.md"}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0].split("`")[1])
def test_a_result_names_machine_commit_and_command(row):
    _, what, where, commit, command = row
    assert len(what) > 10
    assert re.search(r"H100|EPYC|two cores|simulated|computation only|the same", where)
    assert re.fullmatch(r"[0-9a-f]{7,12}", commit)
    assert re.search(r"`(python tests/benchmarks/|edgetune )|as in the file", command)
    if "as in the file" in command:
        assert "\n$ " in "\n" + (RESULTS / row[0].split("`")[1]).read_text(encoding="utf-8")
    for script in re.findall(r"tests/benchmarks/\w+\.py", command):
        assert (RESULTS.parents[1] / script).exists()


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0].split("`")[1])
def test_the_commit_of_a_result_is_in_the_history(row):
    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", *words], cwd=RESULTS, capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("the history is not here")
    assert git("merge-base", "--is-ancestor", row[3], "HEAD").returncode == 0

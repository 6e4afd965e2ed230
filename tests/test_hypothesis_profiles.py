"""The default run draws the same examples every time; a fresh run draws others and prints how to draw them again."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

DRAWS = """
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st


@settings(max_examples=20)
@given(st.integers(0, 10**9))
def test_draw(number):
    with Path("drawn").open("a") as file:
        print(number, file=file)
    assert number < 1000 or not Path("fails").exists()
"""


def _drawn(folder: Path, *options: str) -> tuple[list[str], str]:
    """Run the file above in a pytest of its own; return the examples in order, and what was printed."""
    Path(folder / "drawn").unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_draws.py", *options],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return (folder / "drawn").read_text().split(), done.stdout


def test_this_run_uses_the_profile() -> None:
    """Of a test that changes one setting, too: its settings start from the profile."""
    profile = settings.get_profile("repeatable")
    assert (profile.derandomize, profile.database, profile.deadline) == (True, None, None)
    fresh = settings.get_profile("fresh")
    assert (fresh.derandomize, fresh.deadline) == (False, None)


@pytest.mark.slow
def test_default_examples_repeat_and_fresh_ones_are_drawn_again_by_the_printed_seed(tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_draws.py").write_text(DRAWS)
    first, _ = _drawn(tmp_path)
    assert len(first) >= 20
    assert _drawn(tmp_path)[0] == first
    (tmp_path / "fails").touch()
    fresh, said = _drawn(tmp_path, "--hypothesis-profile=fresh")
    seed = re.search(r"again: --hypothesis-profile=fresh --hypothesis-seed=(\d+)", said)
    assert seed, said
    assert fresh != first
    again, _ = _drawn(tmp_path, "--hypothesis-profile=fresh", f"--hypothesis-seed={seed[1]}")
    assert again == fresh

"""The examples and the README are real: what they show is what the commands print."""

import pytest
from committed import EXAMPLES, README, blocks, commands, matches, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("reader")
    (path / "examples").symlink_to(README.parent / "examples")
    return path


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_committed(example, folder):
    done = run(f"examples/{example.name}", folder)
    assert done.returncode == 0
    assert matches(example.with_suffix(".out").read_text(), done.stdout), done.stdout


def test_the_readme_shows_what_the_commands_print(folder):
    found = blocks(README.read_text())
    assert len(found) >= 4
    for kind, body in found:
        for command, expected in commands(kind, body):
            done = run(command, folder)
            assert done.returncode == 0, f"{command}{done.stdout}"
            assert kind == "sh" or matches(expected, done.stdout), f"{command}{done.stdout}"


def test_every_warning_code_is_in_the_readme():
    import re

    sources = [path.read_text() for path in (README.parent / "edgetune").rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'Caution\(\s*"([a-z-]+)"', text)}
    assert len(codes) >= 5
    assert {code for code in codes if f"`{code}`" not in README.read_text()} == set()


def test_any_lines_and_last_digits_are_left_out_of_a_comparison():
    assert matches("a\n...\nz\n", "a\nb\nc\nz\n")
    assert matches("a\n...\n", "a\n")
    assert matches("x 1.23456789\n", "x 1.23461\n")
    assert not matches("a\n...\nz\n", "a\nb\n")
    assert not matches("x 1.2345\n", "x 1.2365\n")

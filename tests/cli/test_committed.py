"""The examples and the README are real: what they show is what the commands print."""

import re
from importlib.metadata import version

import pytest
import recording
from committed import (
    DOCUMENTS,
    EXAMPLES,
    FIGURES,
    PICTURE,
    PROGRAMS,
    README,
    blocks,
    commands,
    figure_drawn,
    matches,
    reader,
    run,
    story,
    unlike,
)
from warm import warm_edgetune

from edgetune import manual


@pytest.fixture(scope="module", autouse=True)
def warm(tmp_path_factory):
    """Have the shells find a program that need not import its libraries for each command."""
    with warm_edgetune(tmp_path_factory.mktemp("w")) as folder:
        PROGRAMS.append(str(folder))
        yield
        PROGRAMS.remove(str(folder))


MATPLOTLIB = tuple(map(int, version("matplotlib").split(".")[:2]))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_prints_what_is_committed(example, tmp_path):
    code, out = run(f"examples/{example.name}", reader(tmp_path, "examples"))
    assert code == 0
    assert matches(example.with_suffix(".out").read_text(encoding="utf-8"), out), out


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if blocks(path.read_text(encoding="utf-8"))], ids=lambda path: path.stem
)
def test_a_document_shows_what_the_commands_print(document, tmp_path):
    folder = reader(tmp_path, document.stem)
    for kind, body in blocks(document.read_text(encoding="utf-8")):
        for command, expected in commands(kind, body):
            code, out = run(command, folder)
            assert code == 0, f"{command}{out}"
            assert kind == "sh" or matches(expected, out), f"{command}{out}"
    for figure in FIGURES if document == README else ():
        assert f"examples/{figure})" in README.read_text(encoding="utf-8")
        drawn, committed = figure_drawn(figure, folder), README.parent / "examples" / figure
        if MATPLOTLIB >= (3, 11):  # older ones draw pictures of other sizes
            assert unlike(drawn, committed) < 0.01, figure


def test_the_picture_shows_the_readme():
    assert recording.words(PICTURE.read_text(encoding="utf-8")) == recording.words(recording.drawn(story()))


def test_no_command_is_run_twice():
    found = [
        command
        for path in DOCUMENTS
        for block in blocks(path.read_text(encoding="utf-8"))
        for command, _ in commands(*block)
    ]
    slow = [command for command in found if "fake_board" not in command]
    assert len(slow) > 20
    assert {command for command in slow if slow.count(command) > 1} == set()


def test_every_warning_code_is_explained():
    sources = [path.read_text(encoding="utf-8") for path in (README.parent / "edgetune").rglob("*.py")]
    codes = {code for text in sources for code in re.findall(r'DataWarning\(\s*"([a-z-]+)"', text)}
    page = manual.page("files")
    assert len(codes) >= 5
    assert {code for code in codes if f"`{code}`" not in page} == set()


def test_any_lines_and_last_digits_are_left_out_of_a_comparison():
    assert matches("a\n...\nz\n", "a\nb\nc\nz\n")
    assert matches("a\n...\n", "a\n")
    assert matches("x 1.23456789\n", "x 1.23461\n")
    assert not matches("a\n...\nz\n", "a\nb\n")
    assert not matches("x 1.2345\n", "x 1.2365\n")

"""Tables on screens of any width, and in pipes."""

import io

import pytest

from edgetune.cli import screen

COLUMNS = ("what", "size>", "note")
ROWS = [
    ("short", 1, "a note of several words, which is long"),
    ("a name with many words", 22, ""),
    ("x", None, "brief"),
]


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def draw(width: int | None) -> list[str]:
        out = io.StringIO() if width is None else Terminal()
        monkeypatch.setenv("COLUMNS", str(width or 10))
        screen.table(COLUMNS, ROWS, stream=out)
        return out.getvalue().splitlines()

    return draw


def test_a_pipe_gets_one_line_for_each_row(lines):
    assert lines(None) == [
        "what                    size  note",
        "short                      1  a note of several words, which is long",
        "a name with many words    22",
        "x                          -  brief",
    ]


def test_a_screen_that_is_wide_enough_looks_the_same(lines):
    assert lines(80) == lines(None)


def test_a_last_column_that_would_be_a_ribbon_goes_below_its_row(lines):
    assert lines(36) == [
        "what                    size",
        "short                      1",
        "      a note of several words,",
        "      which is long",
        "a name with many words    22",
        "x                          -",
        "      brief",
    ]


@pytest.mark.parametrize("width", range(26, 80))
def test_no_word_is_lost_on_any_screen(lines, width):
    _, *drawn = lines(width)
    _, *plain = lines(None)
    assert sorted(" ".join(drawn).split()) == sorted(" ".join(plain).split())
    assert all(len(line) <= width for line in drawn)


def test_prose_folds_between_words_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    text = "no power: --power-budget cannot be checked"
    assert screen.folded(text, io.StringIO()) == text
    assert screen.folded(text, Terminal()).splitlines() == ["no power:", "--power-budget", "cannot be checked"]

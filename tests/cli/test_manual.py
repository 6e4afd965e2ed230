"""``edgetune help``: the pages of the manual, and what they say beside what holds."""

import re
from pathlib import Path

import pytest
from terminal import Terminal

from edgetune import manual
from edgetune.limits import LIMITS

FOLDER = Path(manual.__file__).parent


def test_every_page_is_a_topic_and_every_topic_a_page():
    assert {path.stem for path in FOLDER.glob("*.md")} == set(manual.TOPICS)


def test_the_topics_are_listed(edgetune):
    out = edgetune("help").out
    for topic, line in manual.TOPICS.items():
        assert topic in out
        assert line in out


@pytest.mark.parametrize("topic", manual.TOPICS)
def test_a_pipe_gets_the_page_as_it_is_written(edgetune, topic):
    assert edgetune("help", topic).out == manual.page(topic)


def test_a_terminal_gets_it_laid_out(tmp_path):
    code, shown = Terminal(80).run("help", "security", cwd=tmp_path)
    out = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    lines = out.splitlines()
    assert code == 0
    assert any(line.strip() == "Security" for line in lines)
    assert max(map(len, lines)) <= 80
    assert "**" not in out


def test_an_unknown_topic_names_the_known_ones(edgetune):
    done = edgetune("help", "securty")
    assert done.code == 2
    assert "did you mean 'security'?" in done.err


def test_the_page_lists_every_limit_as_it_is():
    rows = [f"| `{name}` | {limit.default:,} {limit.unit} | {limit.reason} |" for name, limit in LIMITS.items()]
    table = "\n".join(["| name | default | why |", "|---|---|---|", *rows])
    assert table in manual.page("security"), f"edgetune/manual/security.md should hold:\n{table}"

"""``edgetune help``: the pages of the manual, and what they say beside what holds."""

import re
from pathlib import Path
from textwrap import fill

import pytest
from committed import DOCUMENTS, README, blocks, commands
from terminal import Terminal

from edgetune import manual
from edgetune.cli.app import COMMANDS
from edgetune.errors import ExitCode
from edgetune.limits import LIMITS

FOLDER = Path(manual.__file__).parent
CHANGELOG = README.with_name("CHANGELOG.md")


def test_every_page_is_a_topic_and_every_topic_a_page():
    assert {path.stem for path in FOLDER.glob("*.md")} == set(manual.TOPICS)


@pytest.mark.parametrize("topic", manual.TOPICS)
def test_a_pipe_gets_the_page_as_it_is_written(edgetune, topic):
    assert edgetune("help", topic).out == manual.page(topic)


@pytest.mark.parametrize("topic", ["security", "first-steps"])
def test_a_terminal_gets_it_laid_out(tmp_path, topic):
    code, shown = Terminal(80).run("help", topic, cwd=tmp_path, env={"PAGER": "cat", "MANPAGER": ""})
    out = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    lines = out.splitlines()
    assert code == 0
    assert any(line.strip() == topic.replace("-", " ").capitalize() for line in lines)
    assert max(map(len, lines)) <= 80
    assert "**" not in out


@pytest.mark.parametrize(("rows", "paged"), [(24, True), (1000, False)])
def test_a_page_longer_than_the_terminal_goes_through_the_pager(tmp_path, rows, paged):
    pager = {"PAGER": "cat > paged; echo the pager ended", "MANPAGER": ""}
    code, shown = Terminal(80, rows).run("help", "security", cwd=tmp_path, env=pager)
    assert code == 0
    assert (b"the pager ended" in shown) == (b"Security" not in shown) == paged
    assert (tmp_path / "paged").exists() == paged


@pytest.mark.parametrize(
    "env", [{"PAGER": "no-such-program -r"}, {"PAGER": "", "PATH": "/no/such/folder"}, {"PAGER": "", "TERM": "dumb"}]
)
def test_a_page_is_printed_where_no_pager_can_be_started(tmp_path, env):
    code, shown = Terminal(80).run("help", "security", cwd=tmp_path, env={"MANPAGER": "echo not for manuals", **env})
    assert code == 0
    assert b"Security" in shown
    assert b"not for manuals" not in shown


def test_a_pager_that_ends_early_and_ctrl_c_in_it_are_no_failure(tmp_path):
    terminal = Terminal(80)
    pager = "trap 'echo the pager heard; exit 0' INT; head -1 > /dev/null; echo the pager begins; sleep 60 & wait"
    terminal.start("help", "security", cwd=tmp_path, env={"PAGER": pager})
    terminal.read_until(b"the pager begins")
    terminal.type(b"\x03")
    assert b"the pager heard" in terminal.read_until(None)
    assert terminal.process.wait(60) == 0


def test_a_page_lists_every_limit_as_it_is():
    rows = [f"- `{name}`, {limit.default:,} {limit.unit}: {limit.reason}" for name, limit in LIMITS.items()]
    table = "\n".join(fill(row, 80, subsequent_indent="  ", break_on_hyphens=False) for row in rows)
    assert table in manual.page("limits"), f"edgetune/manual/limits.md should hold:\n{table}"


@pytest.mark.parametrize("document", [*DOCUMENTS, CHANGELOG], ids=lambda path: path.stem)
def test_links_of_documents_lead_to_existing_files(document):
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https:)([^)]+)\)", text):
        assert (document.parent / target).exists(), target
    for path in re.findall(r"(?<![\w./])(?:examples|tests|completions)/[\w/.-]*\w", text):
        assert (README.parent / path).exists(), path
    for topic in re.findall(r"edgetune help ([a-z-]+)", text):
        assert topic in manual.TOPICS


def test_the_readme_leads_to_every_page():
    assert [
        topic for topic in manual.TOPICS if f"(edgetune/manual/{topic}.md)" not in README.read_text(encoding="utf-8")
    ] == []


def test_the_readme_is_short_and_names_every_command():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert [name for name in COMMANDS if f"| `{name}` |" not in text] == []


def test_every_exit_code_is_explained():
    listed = re.findall(r"^- \*\*([\d, ]+)\*\*", manual.page("command-line"), re.MULTILINE)
    assert {code.value for code in ExitCode} <= {int(code) for codes in listed for code in codes.split(", ")}


@pytest.mark.parametrize("topic", manual.TOPICS)
def test_a_page_fits_a_terminal(topic):
    """Sentences that a command prints fold where a page is shown; tables of figures, and all that is written, fit."""
    lines = manual.page(topic).splitlines()
    found = [output for kind, body in blocks(manual.page(topic)) for _, output in commands(kind, body)]
    outputs = {line for output in found for line in output.splitlines()}
    assert [line for line in lines if len(line) > 80 and line not in outputs] == []
    assert [line for line in outputs if len(line) > 78 and len(re.findall(r"  +\S", line)) > 3] == []
    assert len(lines) <= 200


def test_a_link_becomes_what_is_typed():
    assert "see `edgetune help interleaving`" in " ".join(manual.page("searching").split())
    assert "`examples/tenants.yaml`" in manual.page("interleaving")
    assert [topic for topic in manual.TOPICS if "](" in manual.page(topic)] == []

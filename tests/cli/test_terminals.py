"""Terminals that are narrow, lost, or steered by hostile names; tables, progress and signals on them."""

import csv
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pytest
from chain_inputs import small_network
from hints import misplaced
from hostile import FILE_NAME, UNICODE
from terminal import Terminal

from edgetune.artifacts import io
from edgetune.cli import progress, screen
from edgetune.cli.screen import Screen

GOLDEN = sorted(path for path in (Path(__file__).parents[1] / "golden").iterdir() if path.suffix != ".py")
WIDTHS = (0, 1, 5, 21)
SLOW = """
import time
def make(batch_size):
    def step():
        time.sleep(0.002 if batch_size < 8 else 3600)
    return step
"""


class Narrow:
    """Standard output that says that it is a terminal."""

    def __init__(self, stream):
        self._stream = stream

    def isatty(self):
        return True

    def __getattr__(self, name):
        return getattr(self._stream, name)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_kind_of_file_is_shown_at_any_width(monkeypatch, capsys, path):
    import sys

    from edgetune.cli.main import run

    monkeypatch.setattr(sys, "stdout", Narrow(sys.stdout))
    monkeypatch.setattr(sys, "stderr", Narrow(sys.stderr))
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        assert run(("show", str(path))) == 0, capsys.readouterr()
        assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("columns", [0, 5])
def test_a_terminal_of_any_size_shows_a_table_and_an_error(tmp_path, columns):
    path = str(Path(__file__).parents[1] / "golden/profile-v2.parquet")
    code, shown = Terminal(columns, rows=columns).run("show", path, cwd=tmp_path)
    assert (code, b"Traceback" in shown) == (0, False), shown
    assert b"profile version 2" in shown


def test_words_wider_than_their_letters_fill_a_table(monkeypatch, capsys):
    import sys

    from edgetune.cli import screen

    out = Narrow(sys.stdout)
    rows = [("\u4e2d\u6587\u5b57 " * 9, 1, "\u4e2d\u6587" * 30), ("a", 22, "b")]
    for width in WIDTHS:
        monkeypatch.setenv("COLUMNS", str(width))
        screen.table(("what", "size>", "note"), rows, stream=out)
        shown = capsys.readouterr().out
        assert shown.count("\u5b57") == 9
        assert shown.count("\u6587") == 9 + 30


def test_a_terminal_is_not_steered_by_hostile_names(tmp_path):
    (tmp_path / "train.py").write_text(f"raise RuntimeError({UNICODE!r})", encoding="utf-8")
    document = json.loads(Path(_exported(tmp_path)).read_text(encoding="utf-8"))
    for row in document["rows"]:
        row["workload"] = f"w{UNICODE}"
    name = f"t{FILE_NAME}.json"
    (tmp_path / name).write_text(json.dumps(document))
    lines = [
        ("show", name),
        ("profile", "train.py", "--device", "host", "-o", "p.parquet"),
        ("search", name, "--verbose"),
    ]
    for line in lines:
        code, shown = Terminal(60).run(*line, cwd=tmp_path)
        assert code in (0, 2), shown
        text = shown.decode()
        for raw in ("\x1b]", "\x07", "\x1b[2J", "\x9b", "\x08", "\u202e", "\u200b", "\u2028", "\x85", "\U000e0041"):
            assert raw not in text, (line, raw)
        assert "\n>forged" not in text.replace("\r", "")


def _exported(folder):
    path = folder / "whole.json"
    io.write(io.read_profile(str(Path(__file__).parents[1] / "golden/profile-v2.parquet")), str(path))
    return path


@pytest.mark.parametrize("controlling", [True, False], ids=["SIGHUP", "EIO"])
def test_a_lost_terminal_ends_a_search_with_129_and_keeps_its_points(tmp_path, controlling):
    (tmp_path / "slow.py").write_text(SLOW)
    terminal = Terminal(80)
    sizes = "1,2,8" if controlling else "1,2,3,4,5,6,7"
    terminal.start(
        "search", "slow.py", "--task", "train", "--device", "host", "--batch-sizes", sizes, "--strategy", "exhaustive",
        "--verbose", cwd=tmp_path, controlling=controlling,
    )  # fmt: skip
    terminal.read_until(b"step 2:")
    assert terminal.hang_up() == 129
    assert len(io.read_profile(str(tmp_path / "slow-train-points.parquet")).rows) >= 2


@pytest.mark.parametrize("controlling", [True, False], ids=["SIGHUP", "EIO"])
def test_a_lost_terminal_ends_a_watch_with_129(tmp_path, controlling):
    terminal = Terminal(80)
    terminal.start("device", "watch", "host", "--interval", "50ms", cwd=tmp_path, controlling=controlling)
    terminal.read_until(b"time")
    assert terminal.hang_up() == 129


def test_a_watch_ends_with_its_terminal_even_where_the_signal_is_ignored(tmp_path):
    terminal = Terminal(80)
    terminal.start("device", "watch", "host", "--interval", "50ms", cwd=tmp_path, ignoring=True, controlling=False)
    terminal.read_until(b"time")
    assert terminal.hang_up() == 129


def test_a_search_that_ignores_a_lost_terminal_works_to_the_end(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    terminal = Terminal(80)
    terminal.start(
        "search", "slow.py", "--task", "train", "--device", "host", "--batch-sizes", "1,2,3,4,5,6,7",
        "--strategy", "exhaustive", "--verbose", "-o", "plan.yaml", cwd=tmp_path, controlling=False, ignoring=True,
    )  # fmt: skip
    terminal.read_until(b"step 2:")
    assert terminal.hang_up() == 0
    assert "points_measured: 7" in (tmp_path / "plan.yaml").read_text(encoding="utf-8")


# Tables on screens of any width, and in pipes

COLUMNS = ("what", "size>", "note")
ROWS = [
    ("short", 1, "a note of several words, which is long"),
    ("a name with many words", 22, ""),
    ("x", None, "brief"),
]


class TextTerminal(StringIO):
    def isatty(self):
        return True


@pytest.fixture
def drawn_lines(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")

    def draw(width: int | None) -> list[str]:
        out = StringIO() if width is None else TextTerminal()
        monkeypatch.setenv("COLUMNS", str(width or 10))
        screen.table(COLUMNS, ROWS, stream=out)
        return out.getvalue().splitlines()

    return draw


def test_a_pipe_gets_one_line_for_each_row(drawn_lines):
    assert drawn_lines(None) == [
        "what                    size  note",
        "short                      1  a note of several words, which is long",
        "a name with many words    22",
        "x                          -  brief",
    ]


def test_no_word_is_lost_on_any_screen(drawn_lines):
    _, *plain = drawn_lines(None)
    for width in range(26, 81):
        _, *drawn = drawn_lines(width)
        assert sorted(" ".join(drawn).split()) == sorted(" ".join(plain).split())
        assert all(len(line) <= width for line in drawn)


def test_prose_folds_between_words_on_a_terminal_only(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    text = "no power: --power-budget cannot be checked"
    assert screen.folded(text, StringIO()) == text
    assert screen.folded(text, TextTerminal()).splitlines() == ["no power:", "--power-budget", "cannot be checked"]


# What is said while something long goes on


def on_terminal(monkeypatch):
    """Make standard error a terminal of 80 columns; not in a fixture, after which pytest captures it again."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys, "stderr", TextTerminal())
    return sys.stderr


def lines_of(terminal):
    return [line.strip() for line in re.split(r"\r|\n|\x1b\[[0-9;?]*[A-Za-z]", terminal.getvalue()) if line.strip()]


def test_a_bar_shows_the_point_that_is_measured_below_it(monkeypatch):
    terminal = on_terminal(monkeypatch)
    screen = Screen()
    with screen.bar("measuring kernels", 3) as advance:
        advance(1, "measuring kernels")
        screen.points("50 ms (40 ms, 60 ms), 20 minibatches, at most 12 s left: net infer")
        progress._open[-1].refresh()
    lines = lines_of(terminal)
    assert "1/3" in " ".join(lines)
    assert any(line.startswith("50 ms (40 ms, 60 ms), 20 minibatches, at most 12 s left: net infer") for line in lines)
    screen.point("loading net")  # without a bar there is no place for it
    assert lines_of(terminal) == lines


def test_without_a_terminal_nothing_is_shown_and_nothing_is_reported(capsys):
    screen = Screen()
    assert screen.points is None
    with screen.bar("measuring", None) as advance, screen.timing("managed", 10.0):
        assert advance is None
    assert capsys.readouterr() == ("", "")


def test_quiet_is_quiet_on_a_terminal_too(monkeypatch):
    terminal = on_terminal(monkeypatch)
    screen = Screen(quiet=True)
    with screen.bar("measuring", 2) as advance, screen.timing("managed", 10.0):
        assert (advance, screen.points) == (None, None)
    assert terminal.getvalue() == ""


# A signal in a long command: what is kept and how to go on is told, and the exit code is the signal's

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
TRAIN = """
import time
def make(batch_size):
    def step():
        time.sleep(3600 if batch_size == 8 else 0.005)
    return step
"""
HANGS = "import time\ntime.sleep(3600)\ndef make(batch_size): ...\n"
COSTS = "network,layer,kind,weight_bytes,output_bytes,load_s,execute_s\nfaces,fc,fc,1000,100,0.1,0.1\n"
JOBS = """kind: jobs
version: 1
memory: 64MiB
networks: {faces: {costs: costs.csv}}
jobs: [{name: photos, networks: [faces], arrivals: periodic:100ms, count: 400}]
"""


def big_table(path):
    """Write 4096 points of a made-up board, of which some keep 20 W: enough for a search that takes a while."""
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(
            ["workload", "task", "batch_size", "cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz", "minibatch_s", "power_w"]
        )
        values = ((1, 2, 4, 8), (2, 4, 8, 12), range(300, 2300, 250), range(300, 1300, 125), (204, 665, 2133, 3199))
        for size, cores, cpu, gpu, mem in itertools.product(*values):
            time_s = size * (1 / cpu + 3 / gpu + 1 / mem) / cores**0.2
            rows.writerow(["net", "train", size, cores, cpu, gpu, mem, time_s, 5 + cpu / 400 + gpu / 90 + mem / 400])


@pytest.fixture
def folder(tmp_path):
    small_network(tmp_path)
    (tmp_path / "slow.py").write_text(TRAIN)
    (tmp_path / "hangs.py").write_text(HANGS)
    (tmp_path / "costs.csv").write_text(COSTS)
    (tmp_path / "jobs.yaml").write_text(JOBS)
    return tmp_path


def stopped(folder, line, marker, number):
    """Run a command, send it a signal after a line of its standard error, and return the exit code and the rest."""
    command = [sys.executable, "-m", "edgetune", *line.split()]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "XDG_CACHE_HOME": str(folder / "cache")},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said = [process.stderr.readline()]
        while marker not in said[-1]:
            assert said[-1], f"ended before {marker!r}: {said}"
            said.append(process.stderr.readline())
        time.sleep(0.5)  # libraries that are being loaded may take an exception for a failure of their own
        process.send_signal(number)
        try:
            _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "Traceback" not in rest
    code = process.returncode
    return (code if code >= 0 else 128 - code), rest  # as a shell tells it; Python may end by the signal itself


LIVE = "search slow.py --task train --device host --batch-sizes 1,2,8 --strategy exhaustive --verbose"


@pytest.mark.parametrize(("number", "code"), [SIGNALS[0], pytest.param(*SIGNALS[1], marks=pytest.mark.slow)])
def test_a_live_search_tells_the_best_so_far_and_keeps_its_points_without_being_asked(folder, number, code):
    """Beside the file that an earlier search left; points that were kept are not measured again."""
    (folder / "slow-train-points.parquet").write_bytes(b"points of another night")
    ended, said = stopped(folder, LIVE, "step 2:", number)
    assert ended == code, said
    assert "stopped; best so far: " in said
    assert "the 2 points measured are in slow-train-points-2.parquet: add --known slow-train-points-2.parquet" in said
    assert (folder / "slow-train-points.parquet").read_bytes() == b"points of another night"
    table = io.read_profile(str(folder / "slow-train-points-2.parquet"))
    assert [row.batch_size for row in table.rows] == [1, 2]
    assert table.header.inputs["workload"]["path"] == str(folder / "slow.py")
    ended, said = stopped(folder, f"{LIVE} --known slow-train-points-2.parquet", "step 2:", number)
    assert (ended, "0 points measured, 2 known" in said) == (code, True), said


@pytest.mark.parametrize(("number", "code"), [SIGNALS[1], pytest.param(*SIGNALS[0], marks=pytest.mark.slow)])
def test_a_search_in_a_table_tells_the_best_so_far(folder, number, code):
    big_table(folder / "big.csv")
    line = "search big.csv --power-budget 20W --strategy tpe --max-points 3000 --verbose"
    ended, said = stopped(folder, line, "step 40:", number)
    assert ended == code, said
    (best,) = [line for line in said.splitlines() if line.startswith("stopped; best so far: ")]
    assert "points measured" in best
    assert "every point is in the table as before" in said
    assert not list(folder.glob("*points*"))


@pytest.mark.parametrize(
    ("ending", "line", "words"),
    [
        (SIGNALS[0], "roofline --device host", "--quick runs fewer"),
        (
            SIGNALS[1], "interleave --infer small.onnx --train hangs.py --arrivals uniform:4 --latency-budget 1s",
            "profile MODEL -o FILE, then --profile FILE",
        ),
    ],
    ids=["roofline", "interleave"],
)  # fmt: skip
def test_every_long_command_says_what_is_kept(folder, ending, line, words):
    number, code = ending
    ended, said = stopped(folder, line, "measuring", number)
    assert ended == code, said
    (told,) = [each for each in said.splitlines() if each.startswith(("stopped; ", "stopped before"))]
    assert words in told
    assert misplaced(told, line.split()) == []

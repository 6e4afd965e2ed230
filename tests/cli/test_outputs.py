"""Every command and its output: the ending of ``-o`` says the format, and no file of others is written over."""

import contextlib
import csv
import io
import json
import os
import pty
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from command_line import Ended, assert_two_lines, drawn

from edgetune.artifacts.io import read_any
from edgetune.artifacts.kinds import ENDINGS, KINDS
from edgetune.cli.plot import write_drawing
from edgetune.cli.screen import Screen
from edgetune.errors import InputError
from edgetune.workflows.output import Target

TWIN = ("--device", "twin:orin-agx")


@dataclass(frozen=True)
class Command:
    """One that writes a file.

    Args:
        words: On the command line, without ``-o``.
        kind: Of the file.
        default: Its name where none is given and standard output does not get its bytes; ``None`` without one.
        code: With which it ends.
    """

    words: tuple[str, ...]
    kind: str
    default: str | None = None
    code: int = 0


ENDS = {
    "interleave": Command(("interleave", "plan.yaml", *TWIN, "--duration", "2s"), "run", "run.parquet"),
    "schedule run": Command(("schedule", "run", "jobs.yaml", "--simulate"), "timeline", "timeline.parquet"),
    "kernels simulate": Command(
        ("schedule", "kernels", "simulate", "tasks.yaml"), "kernel_timeline", "kernels.parquet"
    ),
    "kernels bench": Command(
        ("schedule", "kernels", "bench", "A", "--turns", "1", "--duration", "5ms", "--policy", "sequential"),
        "benchmark", "bench.json",
    ),
    "search evaluate": Command(
        ("search", "evaluate", "table.csv", "--strategies", "random:3", "--jobs", "1"),
        "evaluation", "evaluation.parquet",
    ),
}  # fmt: skip
GOES_ON = {
    "profile": Command(
        ("profile", "zoo:squeezenet", "--task", "infer", *TWIN), "profile", "squeezenet-infer-twin.parquet"
    ),
    "search": Command(("search", "table.csv", "--power-budget", "30W"), "plan"),
    "merge": Command(("merge", "table.csv", "more.csv"), "profile", "merged.parquet"),
    "schedule profile": Command(("schedule", "profile", "tiny.onnx", "--repeats", "3"), "layer_costs", "costs.parquet"),
}
ASKED = {
    "roofline": Command(("roofline", "zoo:squeezenet", *TWIN), "roofline"),
    "roofline ops": Command(("roofline", "ops", "zoo:squeezenet"), "ops"),
    "zoo export": Command(("zoo", "export", "squeezenet"), "network"),
    "kernels transform": Command(("schedule", "kernels", "transform", "scale.cu"), "PTX"),
}
REFUSED = {
    "profile --convergence": Command(("profile", "--convergence", "proxy:cnn", "--batch-sizes", "16"), "convergence"),
    "kernels run": Command(("schedule", "kernels", "run", "tasks.yaml"), "kernel_timeline"),
}
"""Commands that need here what there may not be, e.g. a GPU; the ending is looked at first."""
ALL = ENDS | GOES_ON | ASKED | REFUSED


@pytest.fixture(autouse=True)
def folder(inputs_folder):
    return inputs_folder


def assert_is(path: Path, kind: str) -> None:
    """The content of a file is what the ending of its name says."""
    data, ending = path.read_bytes(), path.suffix
    if ending == ".parquet":
        assert data.startswith(b"PAR1")
    elif ending == ".csv":
        rows = list(csv.reader(io.StringIO(data.decode())))
        assert len(rows) > 1
        assert len(set(map(len, rows))) == 1
    elif ending == ".json":
        document = json.loads(data)
        assert document.get("kind", kind) == kind
    elif ending in (".yaml", ".yml"):
        assert yaml.safe_load(data)["kind"] == kind
    if kind in KINDS and ending != ".csv":
        assert read_any(str(path)).header.kind == kind


@pytest.mark.parametrize("name", ALL)
def test_an_ending_of_no_format_is_refused_before_anything_is_done(edgetune, folder, name):
    before = sorted(folder.iterdir())
    ended = edgetune(*ALL[name].words, "-o", "out.txt")
    assert_two_lines(ended, 2)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("name", "ending"),
    drawn([(name, ending) for name, each in (ENDS | GOES_ON | ASKED).items() for ending in ENDINGS[each.kind]], 12),
)
def test_the_file_of_a_command_is_what_its_name_says(edgetune, folder, name, ending):
    command, path = ALL[name], folder / f"out{ending}"
    ended = edgetune(*command.words, "-o", path.name)
    assert ended.code == 0, ended.err
    assert f"wrote {path.name}" in ended.err
    assert "PAR1" not in ended.out
    assert_is(path, command.kind)


@pytest.mark.parametrize("name", ENDS)
def test_commands_that_end_a_chain_print_a_summary_into_a_pipe_and_keep_files(edgetune, folder, name):
    command = ENDS[name]
    default = Path(command.default)
    second = default.with_stem(f"{default.stem}-2")
    kept = []
    for path in (default, second):
        ended = edgetune(*command.words)
        assert ended.code == 0, ended.err
        assert "PAR1" not in ended.out
        assert len(ended.out.splitlines()) > 1, "the summary"
        assert f"wrote {path}" in ended.err
        assert_is(folder / path, command.kind)
        kept.append(default.read_bytes())
    assert kept[0] == kept[1], "the first file is as it was"


def test_a_tilde_that_no_shell_expanded_is_the_home_folder(edgetune, folder):
    home = Path(os.environ["HOME"])
    (folder / "costs.csv").rename(home / "costs.csv")
    jobs = (folder / "jobs.yaml").read_text()
    assert "costs.csv" in jobs
    (folder / "jobs.yaml").write_text(jobs.replace("costs.csv", "~/costs.csv"))
    ended = edgetune(*ENDS["schedule run"].words, "--output=~/t.json")
    assert ended.code == 0, ended.err
    assert_is(home / "t.json", "timeline")
    assert not (folder / "~").exists()


@pytest.mark.parametrize("name", [name for name, each in ENDS.items() if each.kind not in ("benchmark", "energy")])
def test_commands_that_end_a_chain_write_bytes_into_a_pipe_on_request(edgetune, folder, name):
    ended = edgetune(*ENDS[name].words, "-o", "-")
    assert ended.code == 0, ended.err
    assert ended.out.startswith("PAR1")
    assert not list(folder.glob("*.parquet"))
    both = edgetune(*ENDS[name].words, "-o", "-", "--json")
    assert_two_lines(both, 2)


ROUTED = {name: ALL[name] for name in ("profile", "search", "merge", "roofline ops", "schedule run")}
"""Commands that write files, in a form that takes little time."""
END = "\x1e end of a command \x1e"
RUN_ALL = f"""
import contextlib, json, os, sys
from edgetune.cli.main import run
for words in json.loads(sys.argv[1]):
    if sys.argv[2] == "closed":  # again: the command before occupies its number
        sys.stdout = None
        with contextlib.suppress(OSError):
            os.close(1)
    code = run(words)
    for stream, text in ((1, "{END}"), (2, f"{{code}}{END}")):
        with contextlib.suppress(OSError):
            os.write(stream, text.encode())
"""


def run_all(folder: Path, stdout: str) -> dict[str, Ended]:
    """Run the commands of ``ROUTED`` in one process with this kind of standard output."""
    if stdout in ("file", "null", "closed"):
        log = "log" if stdout == "file" else os.devnull
        ours, theirs = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT)
    else:
        ours, theirs = {"terminal": pty.openpty, "pipe": os.pipe, "socket": socket_pair}[stdout]()
    kept = ("PATH", "HOME", "PYTHONPATH", "XDG_CACHE_HOME", "EDGETUNE_TEST_PROCESS")
    python = [sys.executable, "-c", RUN_ALL, json.dumps([each.words for each in ROUTED.values()]), stdout]
    with subprocess.Popen(
        ["sh", "-c", 'exec "$@" >&-', "sh", *python] if stdout == "closed" else python, cwd=folder,
        stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.PIPE,
        env={name: os.environ[name] for name in kept if name in os.environ},
    ) as process:  # fmt: skip
        os.close(theirs)
        with ThreadPoolExecutor() as pool:
            read = pool.submit(read_to_end, ours)
            errs = process.stderr.read().decode().split(END)[:-1]
            out = read.result() if stdout != "file" else Path("log").read_bytes()
    outs = out.decode(errors="replace").split(END)[: len(ROUTED)] if out else [""] * len(ROUTED)
    codes = [int(text.rpartition("\n")[2]) for text in errs]
    return {name: Ended(*each) for name, each in zip(ROUTED, zip(codes, outs, errs, strict=True), strict=True)}


def socket_pair() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def read_to_end(descriptor: int) -> bytes:
    blocks = []
    with contextlib.suppress(OSError):  # of a terminal whose other end is closed
        while block := os.read(descriptor, 1 << 16):
            blocks.append(block)
    os.close(descriptor)
    return b"".join(blocks)


@pytest.mark.parametrize(
    "stdout",
    ["terminal", "pipe", "closed", *(pytest.param(w, marks=pytest.mark.slow) for w in ("file", "null", "socket"))],
)
def test_only_a_pipe_receives_a_table(folder, stdout):
    for name, ended in run_all(folder, stdout).items():
        command = ROUTED[name]
        if stdout == "pipe" and name in GOES_ON:
            assert ended.code == 0, ended.err
            assert ended.out.startswith("kind: plan" if command.kind == "plan" else "PAR1"), name
            assert command.default is None or not (folder / command.default).exists()
            continue
        answers = command.default is None or name not in GOES_ON  # on standard output
        assert ended.code == (2 if stdout == "closed" and answers else 0), ended.err
        assert "PAR1" not in ended.out
        assert bool(ended.out.strip()) == (answers and stdout not in ("null", "closed")), name
        if command.default is not None:
            assert f"wrote {command.default}" in ended.err
            assert_is(folder / command.default, command.kind)


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (
            ("search", "table.csv", "--power-budget", "30W", "--trace", "steps.yaml"),
            "--trace: steps.yaml ends in .yaml",
        ),
        (("search", "table.csv", "--power-budget", "30W", "--points", "points.txt"), "--points: points.txt ends in"),
        (("show", "table.csv", "-o", "out.yaml"), "-o: out.yaml ends in .yaml, and a profile is written as"),
        (("show", "plan.yaml", "-o", "out.csv"), "-o: out.csv ends in .csv, and a plan is written as"),
        (("show", "table.csv", "-o", "table.csv"), "-o: table.csv is an input of this command, and would be lost"),
        (("show", "table.csv", "-o", "plan.yaml"), "plan.yaml is a file of kind plan, and would be lost"),
        (("show", "table.csv", "-o", "-"), "the ending of the file name gives the format"),
    ],
)
def test_other_files_too_are_what_their_names_say(edgetune, folder, words, wrong):
    before = sorted(folder.iterdir())
    ended = edgetune(*words)
    assert_two_lines(ended, 2)
    assert wrong in ended.err
    assert sorted(folder.iterdir()) == before


# Files of others

NOTES = b"day,what\n1,bought a board\n"
COMMANDS = {
    "profile": (("profile", "zoo:squeezenet", "-t", "infer", *TWIN), "-o", ".json"),
    "search": (("search", "table.csv", "--power-budget", "30W"), "-o", ".yaml"),
    "search --trace": (("search", "table.csv", "--power-budget", "30W"), "--trace", ".csv"),
    "search --plot": (("search", "table.csv", "--power-budget", "30W"), "--plot", ".svg"),
    "search evaluate": (("search", "evaluate", "table.csv", "--strategies", "random:3", "--jobs", "1"), "-o", ".csv"),
    "merge": (("merge", "table.csv", "more.csv"), "-o", ".csv"),
    "roofline": (("roofline", "zoo:squeezenet", *TWIN), "-o", ".yaml"),
    "roofline --plot": (("roofline", "zoo:squeezenet", *TWIN), "--plot", ".html"),
    "roofline ops": (("roofline", "ops", "zoo:squeezenet"), "-o", ".csv"),
    "interleave": (("interleave", "plan.yaml", *TWIN, "--duration", "2s"), "-o", ".csv"),
    "interleave --plot": (("interleave", "plan.yaml", *TWIN, "--duration", "2s", "-o", "r.csv"), "--plot", ".png"),
    "schedule run": (("schedule", "run", "jobs.yaml", "--simulate"), "-o", ".json"),
    "schedule profile": (("schedule", "profile", "tiny.onnx", "--repeats", "3"), "-o", ".csv"),
    "kernels simulate": (("schedule", "kernels", "simulate", "tasks.yaml"), "-o", ".csv"),
    "kernels bench": (
        ("schedule", "kernels", "bench", "A", "--turns", "1", "--duration", "5ms", "--policy", "sequential"),
        "-o", ".json",
    ),
    "kernels transform": (("schedule", "kernels", "transform", "scale.cu"), "-o", ".ptx"),
    "zoo export": (("zoo", "export", "squeezenet"), "-o", ".onnx"),
    "show": (("show", "table.csv"), "-o", ".csv"),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
def test_a_foreign_file_is_kept(edgetune, folder, name):
    words, option, ending = COMMANDS[name]
    path = folder / f"mine{ending}"
    path.write_bytes(NOTES)
    before = sorted(folder.iterdir())
    ended = edgetune(*words, option, path.name)
    assert_two_lines(ended, 2)
    assert path.read_bytes() == NOTES
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("name", ["search", "roofline ops", "kernels transform", "show"])
def test_a_foreign_file_is_replaced_with_force_and_ours_without(edgetune, folder, name):
    words, option, ending = COMMANDS[name]
    path = folder / f"mine{ending}"
    path.write_bytes(NOTES)
    assert edgetune(*words, option, path.name, "--force").code == 0
    assert path.read_bytes() != NOTES
    again = edgetune(*words, option, path.name)
    assert again.code == 0, again.err


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf", ".html"])
def test_a_figure_of_another_program_is_kept_and_our_own_is_drawn_again(folder, ending):
    from matplotlib.figure import Figure

    drawn, path = Figure(), f"roof{ending}"
    drawn.subplots()
    page = b'<meta name="generator" content="edgetune">'
    for _ in range(2):
        Target(Path(path)).check("figure", "--plot")
        write_drawing(lambda: page if ending == ".html" else drawn, path, Screen(True))
    Path(path).write_bytes(Path(path).read_bytes().replace(b"edgetune", b"inkscape"))
    with pytest.raises(InputError, match="would be lost"):
        Target(Path(path)).check("figure", "--plot")


def test_fresh_alone_replaces_no_foreign_file(edgetune, folder):
    Path("mine.csv").write_bytes(NOTES)
    words = ("profile", "zoo:squeezenet", "-t", "infer", *TWIN, "-o", "mine.csv", "--fresh")
    assert_two_lines(edgetune(*words), 2)
    assert Path("mine.csv").read_bytes() == NOTES
    assert edgetune(*words, "--force").code == 0


def test_a_checkpoint_is_written_over_no_file_without_force_but_the_one_resumed_from(edgetune, folder):
    Path("train.py").write_text("def make(batch_size):\n    return lambda: None\n", encoding="utf-8")
    tenants = "kind: tenants\nversion: 1\ntenants:\n- {name: t, train: train.py, batch_size: 1, checkpoint: weights.pt"
    Path("tenants.yaml").write_text(tenants + "}\n", encoding="utf-8")
    Path("resuming.yaml").write_text(tenants + ", resume: weights.pt}\n", encoding="utf-8")
    Path("weights.pt").write_bytes(b"PK\x03\x04 of years of training")
    words = ("--device", "host", "--dry-run")
    assert_two_lines(edgetune("interleave", "tenants.yaml", *words), 2)
    assert edgetune("interleave", "tenants.yaml", *words, "--force").code == 0
    assert edgetune("interleave", "resuming.yaml", *words).code == 0
    assert Path("weights.pt").read_bytes() == b"PK\x03\x04 of years of training"

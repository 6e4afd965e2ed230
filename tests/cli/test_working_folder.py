"""A working folder where another user may write: nothing in it is imported or read that no option names."""

import subprocess
import sys
from pathlib import Path

import pytest
from chain_inputs import GPU_TASKS, small_network, write_inputs
from hints import command_at, commands

import edgetune
from edgetune.processes.start import python_command
from edgetune.testing.fake_board import make_board

MODULES = (
    "abc", "argparse", "ast", "asyncio", "base64", "calendar", "codecs", "collections", "concurrent", "contextlib",
    "copy", "csv", "ctypes", "dataclasses", "datetime", "functools", "importlib", "inspect", "json", "logging",
    "multiprocessing", "numpy", "onnx", "onnxruntime", "pickle", "psutil", "pyarrow", "pydantic", "random", "runpy",
    "scipy", "shlex", "signal", "socket", "struct", "subprocess", "tempfile", "threading", "torch", "typing", "yaml",
)  # fmt: skip
SWEEP = "--batch-sizes 1 --minibatches 3"
COMMANDS = (
    f"profile small.onnx --device host --task train {SWEEP} -o p.parquet",
    f"profile ../own/train.py --device host {SWEEP} -o t.parquet",
    "profile small.onnx --device twin:orin-agx --modes grid:20 -o twin.parquet",
    "measure true --runs 3 -o m.parquet",
    "roofline ops small.onnx",
    "device jetson --root board",
    "device set jetson gpu_mhz=76.8 --root board",
    "device restore jetson --root board",
    "doctor",
    "profile net --device recorded:table.csv -t train -b 16 -o again.csv",
    "search table.csv --power-budget 40W -o found.yaml --trace trace.parquet --plot search.svg",
    "search zoo:lstm --device twin:orin-agx --power-budget 40W --strategy gp --max-points 3 -b 1 -o gp.yaml",
    "search evaluate twin.parquet --strategies roofline,random:9 --sample 2 --jobs 2 -o e.parquet",
    "interleave plan.yaml --device twin:orin-agx --duration 50ms -o run.parquet --plot run.svg",
    "interleave --train ../own/train.py --device host --duration 200ms -o live.parquet",
    "schedule prepare small.onnx -o prepared",
    "schedule profile small.onnx --prepared prepared -o costs.parquet",
    "schedule run jobs.yaml --simulate --duration 50ms -o timeline.parquet --plot timeline.svg",
    "schedule run live.yaml --memory 512MiB --duration 200ms -o rows.parquet",
    "schedule kernels simulate tasks.yaml --duration 5ms -o kernels.parquet",
    "schedule kernels bench A --turns 1 --duration 5ms --policy sequential -o bench.json",
    "schedule kernels transform scale.cu -o scale.ptx",
    "schedule kernels shrink scale.cu --grid 6 --block 256",
    "schedule kernels run gpu.yaml -o kernels-run.parquet",
    "roofline small.onnx --device twin:orin-agx -o r.yaml --plot roofline.svg",
    "merge table.csv more.csv -o merged.csv",
    "compare table.csv table.csv",
    "show run.parquet --json",
    "report twin.parquet plan.yaml run.parquet timeline.parquet -o report.html",
    "device",
    "device modes twin:orin-agx grid:5",
    "device show host",
    "device watch host --count 1",
    "device watch jetson --root board --count 2 --interval 10ms",
    "device export plan.yaml --device jetson-agx-orin-64gb --format nvpmodel",
    "zoo export lstm -o lstm.onnx",
    "help files",
    "--version",
)
"""The first is a process of its own; the others run in one, which imports everything where it is first needed."""
ELSEWHERE = {"fleet start", "fleet join", "fleet show", "fleet stop"}
"""In tests/fleet."""
ONE_PROCESS = """
import sys
del sys.path[0]
from edgetune.cli.main import main
for line in sys.argv[1:]:
    try:
        main(line.split())
    except SystemExit as end:
        print("\\n", line, end.code, file=sys.stderr)
        if end.code and not (end.code == 4 and line.startswith("schedule kernels run")):
            raise  # it needs a GPU
"""
LIVE = """
kind: jobs
version: 1
networks: {small: small.onnx}
jobs: [{name: photos, networks: [small], arrivals: batch, count: 2}]
"""
TRAIN = """
import helper_of_the_file

def make(batch_size):
    return lambda: sum(range(1000))
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a module of every name, each of which leaves its name in a file if it is run."""
    work, own = tmp_path / "work", tmp_path / "own"
    work.mkdir()
    own.mkdir()
    write_inputs(work)
    small_network(work)
    (work / "live.yaml").write_text(LIVE)
    (work / "gpu.yaml").write_text(GPU_TASKS)
    make_board(work / "board", "jetson-nano")
    for name in (*MODULES, "helper_of_the_file"):
        (work / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + ' ')\n")
    (work / "matplotlibrc").write_text("no.such.setting: \x1b[31m\n")
    (own / "train.py").write_text(TRAIN)
    (own / "helper_of_the_file.py").write_text("")
    return work


def test_no_command_runs_or_reads_what_lies_in_its_working_folder(folder):
    first, *others = COMMANDS
    for command in (python_command("edgetune", *first.split()), [sys.executable, "-c", ONE_PROCESS, *others]):
        ended = subprocess.run(command, cwd=folder, capture_output=True, check=False)
        assert ended.returncode == 0, ended.stderr.decode()
        assert b"matplotlibrc" not in ended.stderr
        assert not (folder.parent / "ran").exists(), (folder.parent / "ran").read_text(encoding="utf-8")


def test_every_command_is_among_them():
    shown = {command_at(line.split()) for line in COMMANDS}
    groups = {path[:-1] for path in commands()} - {("search",)}
    lacking = {" ".join(path) for path in commands() if path not in shown | groups}
    assert lacking == ELSEWHERE


def test_the_folder_shows_what_runs_its_modules(folder):
    subprocess.run([sys.executable, "-m", "edgetune", "--version"], cwd=folder, capture_output=True, check=False)
    assert (folder.parent / "ran").exists()


def test_only_one_function_starts_a_module_of_edgetune():
    """Others start the user's own commands, the guardian (isolated), or tell a command line."""
    package = Path(edgetune.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if "sys.executable" in path.read_text(encoding="utf-8")
    }
    assert found == {
        "processes/start.py", "processes/privilege.py", "devices/guardian/client.py", "devices/guardian/steps.py",
        "workflows/profile/commands.py", "workloads/python_file.py",
        "workloads/foreign_python_worker.py",
    }  # fmt: skip

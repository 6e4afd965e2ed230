"""Help is quick: it imports nothing heavy, for any command."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hints import commands

from edgetune.cli.app import COMMANDS
from edgetune.cli.main import run
from edgetune.cli.schedule_kernels import app as kernels

HEAVY = (
    "torch", "onnx", "onnxruntime", "pyarrow", "numpy", "scipy", "pydantic", "rich", "yaml", "psutil", "networkx",
    "cuda", "matplotlib", "distributed", "dask",
)  # fmt: skip
LINES = [
    ["--help"],
    ["--version"],
    *([name, "--help"] for name in COMMANDS),
    ["zoo", "export", "--help"],
    ["roofline", "ops", "--help"],
    ["search", "evaluate", "--help"],
    ["schedule", "kernels", "--help"],
    *(["schedule", "kernels", name, "--help"] for name in kernels.subcommands),
]

LOUD = {(), ("help",), ("fleet",), ("schedule",), ("schedule", "kernels"), ("device", "watch")}
"""Groups of commands, pages, and lines without an end."""

PROBE = """
import json, sys
from edgetune.cli.main import run
for line in json.loads(sys.argv[1]):
    code = run(line)
    loaded = sorted({name.partition(".")[0] for name in sys.modules} & set(json.loads(sys.argv[2])))
    print(json.dumps([code, loaded]), file=sys.stderr)
"""


def probed(*lines, heavy=HEAVY):
    """Run command lines in one fresh process; return for each its exit code and the heavy modules loaded by then."""
    words = [sys.executable, "-c", PROBE, json.dumps(lines), json.dumps(heavy)]
    done = subprocess.run(words, capture_output=True, check=True, text=True)
    return [json.loads(line) for line in done.stderr.splitlines()]


def test_help_imports_nothing_heavy():
    assert dict(zip(map(" ".join, LINES), probed(*LINES), strict=True)) == {" ".join(line): [0, []] for line in LINES}


PANDAS = """
import sys
import edgetune
import pyarrow
from edgetune.cli.main import main

try:
    main(["show", sys.argv[1]])
finally:
    loaded = "pandas" in sys.modules
    frames = [pyarrow.table({"a": [1]}).to_pandas(), edgetune.read(sys.argv[1]).to_pandas()]
    print(loaded, *map(len, frames), file=sys.stderr)
"""


def test_a_command_loads_no_pandas_for_pyarrow_and_who_needs_it_gets_it():
    pytest.importorskip("pandas")
    table = Path(__file__).parents[2] / "examples" / "resnet18-train-twin.csv"
    done = subprocess.run([sys.executable, "-c", PANDAS, table], capture_output=True, check=True, text=True)
    assert done.stderr == "False 1 39\n"


def test_a_light_command_stays_light():
    assert probed(["zoo", "--json"], heavy=HEAVY[:6]) == [[0, []]]


def test_no_colour_when_asked_not_to(monkeypatch, edgetune):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "")
    assert "\x1b[" not in edgetune("zoo").out


def test_every_strategy_is_named_where_one_is_chosen_or_judged(edgetune):
    from edgetune.stages.search.strategies import STRATEGIES

    choosing, judging = edgetune("search", "--help").out, edgetune("search", "evaluate", "--help").out
    named = set(choosing.replace(",", " ").replace(";", " ").split())
    assert {name for name in STRATEGIES if not name.endswith("-study")} <= named
    once = "".join(judging[judging.index("ignore") :].split())
    assert [name for name, kind in STRATEGIES.items() if kind.budget_free and name not in once] == []


def test_every_command_that_prints_an_answer_can_be_quiet():
    loud = {path for path, options in commands().items() if "--quiet" not in options}
    assert loud == LOUD


def test_help_fits_a_terminal_of_80_columns(monkeypatch, edgetune):
    monkeypatch.setenv("COLUMNS", "80")
    for path in commands():
        text = edgetune(*path, "--help").out
        assert [line for line in text.splitlines() if len(line) > 80] == []


def test_a_command_of_many_options_lists_about_ten_usual_ones_first(edgetune):
    for path in commands():
        text = edgetune(*path, "--help").out
        usual = text.partition("\nUsual:\n")[2].partition("\n\n")[0]
        every, first = (sum(line.startswith("  -") for line in part.splitlines()) for part in (text, usual))
        assert first in range(7, 12) or (first == 0 and every < 22), (path, every, first)


def test_only_the_subcommand_that_is_asked_for_is_built(monkeypatch, capsys):
    built = []
    for name, each in kernels.subcommands.items():
        monkeypatch.setitem(kernels.subcommands, name, each._replace(build=lambda *_, n=name: built.append(n)))
    assert run(("schedule", "kernels", "--help")) == 0
    assert "shrink     Keep the pieces of a kernel" in capsys.readouterr().out
    assert built == []

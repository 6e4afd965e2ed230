"""What the manual's table of changes claims: a new thing is one file and one row of a table, and is found by its name.

Strategies, devices and policies of interleave from outside are in ``test_plugins.py``, kinds of artifacts in
``artifacts/test_artifact.py``.
"""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from edgetune.cli.command import Terminal, command
from edgetune.cli.main import describe, run
from edgetune.devices.jetson.device import POWER_SENSORS
from edgetune.errors import EdgetuneError, InputError
from edgetune.serving.arrivals import PROCESSES
from edgetune.stages.elastic.policies import POLICIES as ELASTIC
from edgetune.stages.interleave.backend import ENGINES, Engine
from edgetune.stages.interleave.policies import POLICIES as INTERLEAVE
from edgetune.stages.schedule.policies import POLICIES as SCHEDULE
from edgetune.stages.search.strategies import STRATEGIES
from edgetune.workflows.figures import FIGURES
from edgetune.workflows.options import Option
from edgetune.workflows.report.sections import SECTIONS
from edgetune.workloads.costs.node import UNMODELLED, Cost, GraphTensor, OperatorNode
from edgetune.workloads.costs.table import FORMULAS, cost_of, register
from edgetune.workloads.resolve import KINDS

TABLES = {
    "strategy": STRATEGIES, "policy of interleave": INTERLEAVE, "policy of schedule": SCHEDULE,
    "policy of elastic kernels": ELASTIC, "engine": ENGINES, "arrival process": PROCESSES, "figure": FIGURES,
    "sensor": POWER_SENSORS, "kind of workload": KINDS, "section of a report": SECTIONS,
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_row_is_found_by_its_name_and_taken_away_again(table):
    row = next(iter(table.values()))
    table["toy"] = row
    try:
        assert table.find("toy") is row
        with pytest.raises(ValueError, match="already"):
            table["toy"] = row
    finally:
        del table["toy"]
    with pytest.raises(InputError, match=r"there is no .* 'toy'"):
        table.find("toy")


def test_an_engine_is_chosen_by_its_row(capfd):
    words = ["interleave", "--infer", "zoo:squeezenet", "--engine", "toy", "--device", "twin:orin-agx", "--dry-run"]
    words += ["--arrivals", "uniform:5", "--latency-budget", "1s"]
    assert run(words) == 2
    assert "toy" in capfd.readouterr().err
    ENGINES["toy"] = Engine("toy", "native", simulated=True)
    try:
        assert run(words) == 0
    finally:
        del ENGINES["toy"]


def test_an_operator_is_costed_by_its_row():
    x, y = (GraphTensor(name, (2, 3), "float32", 4) for name in "xy")
    toy = OperatorNode("toy", "Toy", (x,), (y,), {})
    assert cost_of(toy) == UNMODELLED
    register(lambda _: Cost("elementwise", flops_other=7), ("Toy",))
    try:
        assert cost_of(toy).flops_other == 7
    finally:
        del FORMULAS["Toy"]
    assert cost_of(toy) == UNMODELLED


@dataclass(frozen=True, kw_only=True)
class ToyOptions:
    """Options with one more field."""

    mass: Annotated[str | None, Option("How heavy.", group="Problem", metavar="MASS")] = None
    tag: Annotated[tuple[str, ...], Option("Repeatable.", repeatable=True)] = ()


def test_an_option_is_a_field():
    app, seen = typer.Typer(rich_markup_mode=None), []

    @command(app)
    def weigh(opts: ToyOptions, terminal: Terminal) -> None:
        """Weigh."""
        seen.append((opts, terminal.json))

    runner = CliRunner()
    shown = runner.invoke(app, ["--help"]).output
    assert "Problem:\n  --mass MASS" in shown
    assert runner.invoke(app, ["--mass", "2kg", "--tag", "a", "--tag", "b", "--json"]).exit_code == 0
    assert seen == [(ToyOptions(mass="2kg", tag=("a", "b")), True)]


def test_an_error_is_a_class_with_an_exit_code():
    class TooHeavyError(EdgetuneError):
        """A mass that nothing holds."""

        exit_code = 2

    assert describe(TooHeavyError("2 t is too heavy", "weigh less")) == ("2 t is too heavy", "weigh less", 2)

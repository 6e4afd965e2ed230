"""The Python interface: the same workflows, words and errors as on the command line."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

import edgetune

REPOSITORY = Path(__file__).parents[1]


def test_importing_loads_nothing_heavy():
    heavy = ("numpy", "pyarrow", "onnx", "torch", "rich", "typer", "pydantic")
    code = f"import sys, edgetune; print([name for name in {heavy} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_every_public_name_is_there():
    """Also when a module of its stage was imported before."""
    import edgetune.stages.search.driver

    assert callable(edgetune.search)
    assert all(getattr(edgetune, name) is not None for name in edgetune.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        edgetune.nothing  # noqa: B018


def test_a_sweep_returns_the_table_that_it_writes_and_resumes(tmp_path, capfd):
    path = tmp_path / "table.parquet"
    options = {"task": "infer", "device": "twin:orin-agx", "output": path}
    first = edgetune.profile("zoo:mobilenet_v2", batch_sizes=[1], **options)
    assert [row.batch_size for row in first.rows] == [1]
    both = edgetune.profile("zoo:mobilenet_v2", batch_sizes=[1, 4], **options)
    assert [row.batch_size for row in both.rows] == [1, 4]
    assert edgetune.read(path) == both
    shown = capfd.readouterr()
    assert not shown.out
    assert "SIMULATED" in shown.err


def test_a_window_on_the_host_has_time_and_memory():
    with edgetune.measure("host") as window:
        held = bytearray(64 << 20)
        held[::4096] = b"x" * len(held[::4096])
    assert window.time_s > 0
    assert window.memory_bytes > 64 << 20
    assert (window.power_w is None) == (window.energy_j is None)
    assert window.power_w is not None or window.reason


def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = json.loads((REPOSITORY / "examples/python.ipynb").read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert len(names["table"].rows) == 441
    assert names["window"].time_s > 0


def test_the_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = (REPOSITORY / "edgetune/manual/python.md").read_text()
    example = re.search(r"```py\n(.*?)```", page, re.DOTALL)[1]
    exec(example, {})
    assert "441 points" in capsys.readouterr().out


@pytest.fixture(scope="module")
def tables():
    """A table of inference and one of training, simulated."""
    options = {"device": "twin:orin-agx", "modes": "grid:100"}
    return (
        edgetune.profile("zoo:squeezenet", task="infer", batch_sizes=[1, 4, 16], **options),
        edgetune.profile("zoo:resnet18", task="train", batch_sizes=[16], **options),
    )


def test_a_plan_from_a_table_in_memory_is_that_of_its_file(tables, tmp_path):
    written = tables[1].save(tmp_path / "train.parquet")
    from_file = edgetune.search(written, power_budget="30W", strategy="gmd", output=tmp_path / "plan.yaml")
    from_memory = edgetune.search(tables[1], power_budget=30.0, strategy="gmd")
    assert from_memory.configuration == from_file.configuration
    assert from_memory.measured == from_file.measured
    assert edgetune.read(tmp_path / "plan.yaml") == from_file


def test_a_search_without_an_answer_raises(tables):
    with pytest.raises(edgetune.EdgetuneError) as caught:
        edgetune.search(tables[1], power_budget="1mW")
    assert caught.value.exit_code == 3


def test_a_plan_is_interleaved_and_saved(tables, tmp_path):
    plan = edgetune.search(
        list(tables), kind="train+infer", power_budget="40W", latency_budget="500ms", arrival_rate="60/s"
    )
    written = edgetune.interleave(plan, device="twin:orin-agx", profile=list(tables), duration=2)
    assert {row.tenant for row in written.rows} >= {"squeezenet", "resnet18"}
    assert written.save(tmp_path / "run.parquet").exists()


def test_a_network_beneath_the_roofs_of_a_twin():
    (placed,) = edgetune.roofline("zoo:resnet18", device="twin:orin-agx", batch_sizes=[1])
    assert placed.placements[0].bound in ("memory", "compute")
    (peaks,) = edgetune.roofline(device="twin:orin-agx", precision="fp32")
    assert peaks.roofline.header.simulated


def test_a_schedule_is_simulated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    timeline = edgetune.schedule(str(REPOSITORY / "examples/memory-jobs.yaml"), simulate=True, policy="linear,reuse")
    assert {row.policy for row in timeline.rows} == {"linear", "reuse"}
    assert timeline.header.simulated


def test_a_report_is_one_page_of_tables_and_documents(tables, tmp_path):
    pytest.importorskip("matplotlib")
    written = tables[1].save(tmp_path / "train.parquet")
    plan = edgetune.search(tables[1], power_budget=30.0, strategy="gmd")
    page = edgetune.report([written, plan], tmp_path / "report.html").read_text()
    assert page.count("<section ") == 3, "the two, and where they come from"
    assert page.count('class="simulated"') == 3, "the page and both"
    assert page.count("<svg ") == 2, "the front of the plan and that of the table"
    assert "why it lost" in page
    assert "Of all points of the table another one is best: " in page
    assert "http://" not in page
    assert edgetune.report(plan, tmp_path / "report.html").exists(), "a page of edgetune is replaced"
    with pytest.raises(edgetune.EdgetuneError, match="is a page"):
        edgetune.report(plan, tmp_path / "report.pdf")


@pytest.mark.parametrize(
    ("option", "value"),
    [("seed", 1.5), ("retries", "two"), ("modes", ["MAXN"]), ("batch_sizes", []), ("output", 5)],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(option, value):
    with pytest.raises(edgetune.EdgetuneError, match=f"^{option} cannot be"):
        edgetune.profile("zoo:squeezenet", task="infer", **{option: value})


def test_an_unknown_option_names_the_nearest():
    with pytest.raises(TypeError, match=r"profile\(\) has no option 'batch_size'; did you mean 'batch_sizes'\?"):
        edgetune.profile("zoo:squeezenet", batch_size=1)
    with pytest.raises(TypeError, match=r"profile\(\) needs model"):
        edgetune.profile()


def test_figures_are_refused_rather_than_forgotten(tables):
    with pytest.raises(edgetune.EdgetuneError, match="plot and view are for the command line"):
        edgetune.search(tables[1], power_budget=30, plot="front.svg")
    with pytest.raises(edgetune.EdgetuneError, match="top is for the command line"):
        edgetune.search(tables[1], power_budget=30, top=5)


def test_a_table_in_memory_is_called_so_and_prints_in_a_line(tables):
    plan = edgetune.search(tables[1], power_budget=30, strategy="gmd")
    assert plan.header.inputs["profile"]["name"] == "<profile-1>"
    assert repr(tables[1]).endswith("100 rows, SIMULATED>")
    assert "SIMULATED" in tables[1]._repr_html_()


def test_threads_take_turns(tables, tmp_path):
    def plan(number):
        return edgetune.search(tables[1], power_budget=30, strategy="gmd", output=tmp_path / f"{number}.yaml")

    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(plan, range(4)))
    assert [edgetune.read(tmp_path / f"{number}.yaml") for number in range(4)] == plans


def test_standard_output_stays_the_programs_own():
    with pytest.raises(edgetune.EdgetuneError, match="standard output"):
        edgetune.roofline("zoo:resnet18", device="twin:orin-agx", output="-")


def test_a_run_that_a_signal_stops_raises(tables, tmp_path):
    path = tmp_path / "run.parquet"
    plan = edgetune.search(tables[0], power_budget=30, latency_budget=0.5, arrival_rate=60)

    def stop_the_run():
        while not list(tmp_path.iterdir()):  # the rows of a run that is under way
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    Thread(target=stop_the_run, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        edgetune.interleave(plan, device="twin:orin-agx", profile=tables[0], duration="100h", output=path)
    assert edgetune.read(path).rows


def test_a_run_in_another_thread_needs_no_signals(tables):
    plan = edgetune.search(tables[0], power_budget=30, latency_budget=0.5, arrival_rate=60)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(edgetune.interleave, plan, device="twin:orin-agx", profile=tables[0], duration=1).result()
    assert run.rows

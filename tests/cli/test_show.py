"""``edgetune show`` and ``edgetune report``: tables, figures and pages of files."""

import html
import json
import re
from pathlib import Path

import pytest
import yaml
from command_line import assert_two_lines

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.kinds import KINDS
from edgetune.artifacts.run import Run, RunRow
from edgetune.workflows.report.sections import SECTIONS, page_order

TABLE = """workload,task,batch_size,gpu_mhz,minibatch_s,power_w,device
net,train,16,300,0.20,12,twin:orin-agx
net,train,16,900,0.09,29,twin:orin-agx
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return str(path)


@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_profile_is_drawn(edgetune, table, tmp_path, suffix, start):
    target = tmp_path / f"figure.{suffix}"
    ended = edgetune("show", table, "--plot", str(target))
    assert (ended.code, ended.out, ended.err) == (0, "", f"wrote {target}\n")
    first = target.read_bytes()
    assert first.startswith(start)
    edgetune("show", table, "--plot", str(target))
    assert target.read_bytes() == first


def test_a_view_that_is_none_is_two_lines(edgetune, table, tmp_path):
    trace, target = tmp_path / "trace.parquet", str(tmp_path / "figure.svg")
    edgetune("search", table, "--power-budget", "30W", "--trace", str(trace))
    misspelt = edgetune("show", str(trace), "--plot", target, "--view", "fornt")
    assert_two_lines(misspelt, 2)
    assert_two_lines(edgetune("show", table, "--plot", target, "--view", "front"), 2)
    assert_two_lines(edgetune("show", str(trace), "--view", "front"), 2)


@pytest.fixture
def table_rows(tmp_path):
    lines = [f"net,train,16,{100 + row},{1 / (100 + row)},{5 + row / 100}" for row in range(30)]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(["workload,task,batch_size,gpu_mhz,minibatch_s,power_w", *lines, ""]))
    return path


def test_as_many_rows_as_asked_for_and_how_many_are_left(edgetune, table_rows):
    ended = edgetune("show", str(table_rows), "--rows", "4")
    assert ended.code == 0, ended.err
    assert [line.split()[0] for line in ended.out.splitlines()[-5:-1]] == ["100", "101", "102", "103"]
    assert ended.out.splitlines()[-1] == "... and 26 more rows (--rows 0 prints all)"


def test_a_table_of_another_program_has_the_energy_of_its_plan(edgetune, tmp_path):
    path, plan = tmp_path / "mine.csv", tmp_path / "plan.yaml"
    path.write_text("model,task,batch_size,gpu_mhz,latency_ms,power_w\na,infer,1,300,5.1,10\na,infer,1,600,2.7,15\n")
    ended = edgetune("show", str(path))
    assert "51.0 mJ" in next(line for line in ended.out.splitlines() if line.split()[:1] == ["300"])
    found = edgetune("search", str(path), "--power-budget", "12W", "--latency-budget", "1s", "--arrival-rate", "5/s",
                     "-o", str(plan))  # fmt: skip
    assert found.code == 0, found.err
    measured = yaml.safe_load(plan.read_text(encoding="utf-8"))["measured"]
    assert (measured["minibatch_s"], measured["energy_j"]) == (0.0051, pytest.approx(0.051))


# Runs

TENANTS = [{"name": "net", "task": "infer"}, {"name": "learner", "task": "train"}]


def rows(engine, answer_s, train_s, *, power=True):
    """Ten seconds: a request per second, due in 100 ms, and training in between; 10 W."""
    found = [
        RunRow(engine, "request", k + answer_s, "net", 0, float(k), float(k), k + 0.1, answer_s <= 0.1, k, 1, 1)
        for k in range(10)
    ]
    found += [
        RunRow(engine, "train", k + 0.5 + train_s, "learner", started_s=k + 0.5, minibatch=k, batch_size=16, samples=16,
               loss=2.0 - k / 10)
        for k in range(10)
    ]  # fmt: skip
    found += [RunRow(engine, "power", float(k), power_w=10.0) for k in range(11) if power]
    return found


def write(path, found, *, simulated=False, warnings=()):
    header = Header.new(
        "run", 1, inputs={"tenants": TENANTS}, conditions={"device": "host", "simulated": simulated}, warnings=warnings
    )
    io.write(Run(header, tuple(found)), path)
    return str(path)


@pytest.fixture
def two(tmp_path):
    return write(tmp_path / "two.parquet", rows("managed", 0.05, 0.25) + rows("native", 0.2, 0.25))


def test_machines_get_the_same_by_engine_and_by_turn(edgetune, two):
    ended = edgetune("show", two, "--json")
    figures = json.loads(ended.out)
    assert [each["engine"] for each in figures["engines"]] == ["managed", "native"]
    managed = figures["engines"][0]
    assert managed["answered"][0]["latency_p99_s"] == pytest.approx(0.05)
    assert managed["trained"][0]["samples_per_s"] == 16
    assert managed["device"]["duration_s"] == 10
    assert managed["device"]["idle_s"] == pytest.approx(10 - 10 * 0.05 - 10 * 0.25)
    assert [turn["turns"] for turn in figures["turns"]] == [[0], [0]]
    assert figures["header"]["kind"] == "run"


def test_without_power_there_is_a_reason_and_no_zero(edgetune, tmp_path):
    ended = edgetune("show", write(tmp_path / "r.parquet", rows("managed", 0.05, 0.25, power=False)))
    assert "no energy: no power was read" in ended.out
    assert " W" not in ended.out
    assert " J" not in ended.out


@pytest.mark.parametrize("view", ["latency", "timeline:native"])
def test_each_view_is_drawn(edgetune, two, tmp_path, view):
    target = tmp_path / "figure.svg"
    ended = edgetune("show", two, "--plot", str(target), "--view", view)
    assert (ended.code, ended.out, ended.lines[0]) == (0, "", f"wrote {target}")
    assert all(line.startswith(f"{target}: ") for line in ended.lines[1:]), "what it leaves out"
    word, _, engine = view.partition(":")
    other = {"latency": None, "native": "managed"}.get(engine or word, "native")
    assert (f"not drawn: {other} (" in ended.err) == (other is not None)
    assert target.read_bytes().startswith(b"<?xml")


_GOLDEN = Path(__file__).parents[1] / "golden" / "roofline-v1.yaml"


def test_peaks_energy_and_where_they_come_from(edgetune):
    ended = edgetune("show", str(_GOLDEN))
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    assert lines[0].startswith("SIMULATED")
    begin = lines.index("twin:orin-agx, 12 cores, CPU 2201.6 MHz, 3 kernels measured at 2 modes")
    full, low, _, _, energy, *_ = (" ".join(line.split()) for line in lines[begin + 2 :])
    assert full == "1300.5 3199 fp32 14.7 TFLOP/s 164 GB/s 89.42 FLOP/byte measured"
    assert low == "726.75 2133 fp32 8.50 TFLOP/s 104 GB/s 81.81 FLOP/byte inferred"
    assert energy == "1300.5 3199 fp32 17.9 W 3.86 +-1% 141.4 +-2% 1.2% 39.76 36.63 196.9"


# One page of files, of folders, of files of which some are broken

GOLDEN = Path(__file__).parents[1] / "golden"


def text_of(page):
    """What a person reads on a page."""
    return html.unescape(
        re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    )


def test_every_kind_has_a_section_and_they_stand_in_order(edgetune, tmp_path):
    assert {name.partition(".")[0] for name in SECTIONS} == set(KINDS)
    page = tmp_path / "r.html"
    ended = edgetune("report", str(GOLDEN), "-o", str(page))
    assert (ended.code, ended.out, ended.err.splitlines()[-1]) == (0, "", f"wrote {page}")
    titles = re.findall(r'<h2 id="[^"]*">(.*?)[<\n]', page.read_text(encoding="utf-8"))
    assert titles[-1] == "Where these figures come from"
    names = [title.split(": ")[1].strip() for title in titles[:-1]]
    assert sorted(names) == sorted(path.name for path in GOLDEN.iterdir() if path.suffix != ".py")
    places = [page_order(name.rpartition("-")[0]) for name in names]
    assert places == sorted(places)
    assert "not shown" not in text_of(page)


def test_a_plan_beside_its_table_has_the_best_points_and_why_each_lost(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ("--batch-sizes", "4,16", "--device", "twin:orin-agx", "--modes", "grid:9", "--quiet")
    assert edgetune("profile", "zoo:squeezenet", "--task", "infer", *sizes, "-o", "sweep.parquet").code == 0
    assert edgetune("search", "sweep.parquet", "--power-budget", "25W", "-o", "plan.yaml", "--quiet").code == 0
    assert edgetune("report", "sweep.parquet", "plan.yaml", "-o", "r.html").code == 0
    shown = text_of(tmp_path / "r.html")
    assert "SIMULATED: Report of squeezenet on twin:orin-agx" in shown
    assert "within 25 W: " in shown
    assert "the answer" in shown
    assert "over budget" in shown
    assert "edgetune device export plan.yaml --format nvpmodel" in shown
    assert (tmp_path / "r.html").stat().st_size < 2_000_000


def test_broken_files_are_named_and_the_page_is_made_of_the_others(edgetune, tmp_path):
    broken, page = tmp_path / "<b>.parquet", tmp_path / "r.html"
    broken.write_bytes(b"PAR1 no more")
    ended = edgetune("report", str(broken), str(GOLDEN / "plan-v1.yaml"), "-o", str(page))
    assert ended.code == 5
    assert "Left out: " in text_of(page)
    assert "<b>" not in page.read_text(encoding="utf-8")
    assert_two_lines(edgetune("report", str(broken), "-o", str(tmp_path / "none.html"), "--quiet"), 2)
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize(
    "words",
    [("missing.parquet",), (str(GOLDEN), "-o", "r.pdf")],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_two_lines(edgetune, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    ended = edgetune("report", *words, "--quiet")
    assert_two_lines(ended, 2)


def test_files_of_several_devices_and_simulated_beside_measured_are_said(edgetune, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("workload,task,batch_size,gpu_mhz,minibatch_s,device\nnet,infer,1,300,0.1,nano\n")
    assert edgetune("report", str(table), str(GOLDEN / "plan-v1.yaml"), "-o", str(tmp_path / "r.html")).code == 0
    assert "Some figures are simulated, others are measured" in text_of(tmp_path / "r.html")

"""``edgetune report``: one page of files, of folders, of files of which some are broken, and of runs without end."""

import html
import re
from pathlib import Path

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.kinds import KINDS
from edgetune.workflows.report.sections import SECTIONS, page_order

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


def test_a_plan_found_with_few_points_stays_the_answer_beside_a_better_point(edgetune, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ("--batch-sizes", "4,16", "--device", "twin:orin-agx", "--modes", "grid:9", "--quiet")
    assert edgetune("profile", "zoo:squeezenet", "--task", "infer", *sizes, "-o", "sweep.parquet").code == 0
    few = ("--strategy", "random", "--max-points", "5", "--seed", "2")
    assert edgetune("search", "sweep.parquet", "--power-budget", "45W", *few, "-o", "plan.yaml", "--quiet").code == 0
    assert edgetune("report", "sweep.parquet", "plan.yaml", "-o", "r.html").code == 0
    shown = " ".join(text_of(tmp_path / "r.html").split())
    assert "another one is best: " in shown
    assert "the best of the table" in shown
    assert "the answer, " in shown
    assert "steps of the search" not in shown
    assert "exhaustive" not in shown


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
    [("missing.parquet",), (".",), (),
     (str(GOLDEN), "-o", "r.pdf"), (str(GOLDEN), "-o", "no/r.html")],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_two_lines(edgetune, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    ended = edgetune("report", *words, "--quiet")
    assert_two_lines(ended, 2)


def test_a_file_of_another_program_is_not_replaced(edgetune, tmp_path):
    page = tmp_path / "index.html"
    page.write_text("<p>mine</p>")
    assert_two_lines(edgetune("report", str(GOLDEN), "-o", str(page), "--quiet"), 2)
    assert page.read_text(encoding="utf-8") == "<p>mine</p>"
    assert edgetune("report", str(GOLDEN / "plan-v1.yaml"), "-o", str(page), "--force").code == 0


def test_files_of_several_devices_and_simulated_beside_measured_are_said(edgetune, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("workload,task,batch_size,gpu_mhz,minibatch_s,device\nnet,infer,1,300,0.1,nano\n")
    assert edgetune("report", str(table), str(GOLDEN / "plan-v1.yaml"), "-o", str(tmp_path / "r.html")).code == 0
    assert "Some figures are simulated, others are measured" in text_of(tmp_path / "r.html")

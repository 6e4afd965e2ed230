"""The figures of `edgetune help studies` are those that the commands of the page print."""

import re
import sys
from argparse import Namespace
from collections import Counter
from pathlib import Path

import interleave_engines
import ops_counts
import pytest
import schedule_thesis
from twin import check, tables

from edgetune.devices.twin.constants import load_board

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
PAGE = " ".join((ROOT / "edgetune/manual/studies.md").read_text().split())
RECORD = ROOT / "examples/results/search-published.txt"


def span(values: list[float]) -> str:
    return "-".join(f"{value:g}" for value in (min(values), max(values)))


def test_medians_are_those_of_the_record() -> None:
    found: dict[tuple[str, str], list[float]] = {}
    family = ""
    for words in map(str.split, RECORD.read_text().splitlines()):
        if words[:1] == ["SIMULATED"]:
            family = words[1].rstrip(":")
        elif len(words) == 7 and words[0] not in ("all", "workload"):
            found.setdefault((family, words[1]), []).append(float(words[3]))
    train, infer = ({name: span(found[task, name]) for name in ("gmd", "als")} for task in ("train", "infer"))
    assert f"| {train['gmd']} / {train['als']} |" in PAGE
    assert f"| {infer['gmd']} / {infer['als']} |" in PAGE
    assert f"| {span(found['train', 'rnd50'])} / {span(found['train', 'rnd250'])} |" in PAGE
    worse = sum(als > chance for als, chance in zip(found["train", "als"], found["train", "rnd50"], strict=True))
    assert f"ALS loses to 50 random points on {worse} of 5 networks" in PAGE


@pytest.mark.slow
def test_figures_of_the_twin() -> None:
    rows = check(load_board("orin-agx")[0], tables)
    of_kind = Counter(row.kind for row in rows if row.within)
    others = of_kind["reprint"] + of_kind["derived"]
    assert f"All {sum(of_kind.values())} are within their tolerance; {of_kind['prediction']} are predictions" in PAGE
    assert f"{of_kind['fit']} fits, {of_kind['sentence']} sentences" in PAGE
    assert f"{of_kind['construction']} by construction, {others} reprints or derived" in PAGE
    time, energy = (
        next(r for r in rows if r.name == f"resnet50 infer bs1 GPU 0.7: {what}") for what in ("time", "energy")
    )
    for value, unit in ((lambda r: r.published, "theirs"), (lambda r: r.twin, "ours")):
        shares = [100 * (value(row) - 1) for row in (time, energy)]
        said = "{:+.0f} % time and {:+.0f} % energy there" if unit == "theirs" else "{:+.1f} and {:+.1f} % here"
        assert said.format(*shares) in PAGE


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the studies' tables are not here")
def test_bytes_of_networks(capsys: pytest.CaptureFixture[str]) -> None:
    ops_counts.against_pagoda(DATA)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:]]
    rows = [words for words in rows if len(words) > 5 and words[2] != "-" and words[0] != "their"]
    flops, moved, eager, by_rules = (sorted(float(words[column]) for words in rows) for column in (2, 3, 4, 5))
    assert max(flops) <= 1.01
    assert f"bytes {moved[0]:.2f} (BERT, batch 64) to {moved[-1]:.2f} times theirs" in PAGE
    assert f"eager {eager[0]:.2f} to {eager[-1]:.2f}; by their rules {by_rules[-1]:.2f}" in PAGE
    assert f"YOLOv8n {next(float(words[3]) for words in rows if words[0] == 'yolov8n'):.2f}" in PAGE


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the studies' tables are not here")
def test_figures_of_the_thesis() -> None:
    pytest.importorskip("ortools", reason="the optimum needs OR-Tools: pip install 'edgetune[optimum]'")
    asked = Namespace(data=DATA / "edgecaffe", prepared=None, repeats=3, limit=5.0, images=50, little_mib=320)
    sections = schedule_thesis.Thesis(asked).sections
    ours = {
        number: [line[2] for line in sections[number]()] for number in ("4.9", "6.3", "6.4", "6.7", "7.15", "7.16", "8")
    }

    def ratio(text: str, name: str = "") -> float:
        return float(re.search(rf"{name} ?x?([0-9.]+)", text)[1])  # type: ignore[index]

    preloading = [ratio(text, "1.00,") for text in ours["4.9"]]
    assert f"| by network | {span(preloading)} |" in PAGE
    assert f"| {ratio(ours['6.3'][2]):.1f}x / {ratio(ours['6.3'][3]):.1f}x, whole |" in PAGE
    assert f"| {ratio(ours['6.4'][1]):.1f} / {ratio(ours['6.4'][2]):.1f} |" in PAGE
    lengths = [ratio(ours["6.7"][workers - 1], "masa") for workers in (4, 6, 7)]
    assert f"| {lengths[0]:.2f}, {lengths[1]:.2f}, {lengths[2]:.2f} |" in PAGE
    assert f"| {span([round(ratio(text, 'masa'), 2) for text in ours['7.15'][:3]])} s |" in PAGE
    assert f"| {span([ratio(text, 'deepeye') for text in ours['7.15']])} |" in PAGE
    half, more, reuse = (ratio(ours["7.16"][place]) for place in (0, 4, 5))
    assert f"| {half:.2f}x / {more:.2f}x; `reuse` {reuse:.2f}x |" in PAGE
    most, mean = (text.strip("%") for text in ours["8"][0].split(", "))
    assert f"| {most} % / {mean} %, weights |" in PAGE


@pytest.mark.slow
def test_figure_2_of_interleaving(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["interleave_engines.py", "--figure-2"])
    interleave_engines.main()
    lines = capsys.readouterr().out.splitlines()

    def counts(beginning: str) -> list[str]:
        (line,) = [line for line in lines if line.startswith(beginning)]
        return re.findall(r"(\d+) of 10", line)

    (managed,), (late,), (faster,) = (counts(words) for words in ("managed: ", 'streams: "we', 'streams: "occ'))
    (third,), (median,) = counts("native: the third"), counts("native: the median")
    assert f"managed is late in {managed}, streams in {late}" in PAGE
    assert f"native's third quartile in {third}, its median in {median}" in PAGE
    assert f"Streams train more than managed in {faster}" in PAGE
    assert f"managed more than native in {counts('managed may train')[1]}" in PAGE

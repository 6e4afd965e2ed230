"""The medians of the study's strategies stay in their bands, and misspecified tables follow other laws."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import search_published as benchmark
from search_published import BANDS, MEDIANS, MISSPECIFIED, BesidePublished, misspecified, outside, strategies_of

from edgetune.artifacts.profile import ProfileRow
from edgetune.stages.search.evaluation.problems import STUDY_PAIRS
from edgetune.stages.search.strategies import STRATEGIES

RECORD = Path(__file__).parents[2] / "examples" / "results" / "search-published.txt"


def test_a_median_outside_its_band_is_named():
    def row(workload: str, ours: float) -> BesidePublished:
        return BesidePublished(workload, "gmd", None, ours, None, 100.0, 10.0)

    beside = [row("all", 0.2), row("lstm", 99.0)]
    (line,) = outside("train", beside)
    assert line.startswith("train gmd: median 0.2 %, not within")
    assert outside("infer", beside) == []


def test_every_published_median_has_a_strategy_and_a_workload_of_the_study():
    for family, workloads in MEDIANS.items():
        strategies = strategies_of(family)
        assert {name for each in workloads.values() for name in each} <= set(strategies)
        if family in STUDY_PAIRS:
            assert set(workloads) == {"+".join(pair) for pair in STUDY_PAIRS[family]}
        assert all(contender.partition(":")[0] in STRATEGIES for contender in strategies.values())


@pytest.mark.slow
def test_two_networks_of_the_study_are_within_the_bands(tmp_path):
    paths = [benchmark.table(tmp_path, network, "train", "16") for network in benchmark.TABLES["train"][0][:2]]
    opts = argparse.Namespace(sample=1000, seeds=3, jobs=1)
    contenders = [strategies_of("train")[name] for name in ("gmd", "rnd50", "rnd250")]
    beside = benchmark.beside_published(benchmark.evaluation(paths, "train", ",".join(contenders), opts).runs)
    rows = {(row.workload, row.strategy): row for row in beside}
    assert rows["resnet", "gmd"].theirs == 8.8
    assert rows["all", "gmd"].theirs is None
    assert rows["resnet", "gmd"].points <= 10
    assert {strategy for _, strategy in rows} == {"gmd", "rnd50", "rnd250"}
    assert outside("train", beside) == []


def test_misspecified_tables_are_judged_by_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "TABLES", {"train": (("resnet18",), "16")})
    monkeypatch.setattr(benchmark, "MISSPECIFIED", {"falling": MISSPECIFIED["falling"]})
    words = ["search_published.py", str(tmp_path), "--misspecified", "--sample", "3", "--jobs", "1"]
    monkeypatch.setattr(sys, "argv", words)
    assert benchmark.main() == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["law", *benchmark.CONTENDERS]
    assert [words[0] for words in lines[2:]] == ["none", "falling"]
    assert all(float(word) >= 0 for words in lines[2:] for word in words[1:])


ROWS = [
    ProfileRow(
        "net", "train", 16, 0.14 * (0.3 * 1300 / gpu + 0.2 * 2200 / cpu + 0.1 * 3199 / mem),
        cpu_mhz=cpu, gpu_mhz=gpu, mem_mhz=mem, power_w=8 + gpu / 60 + cpu / 500 + mem / 900,
    )
    for cpu in (422.0, 1344.0, 2200.0) for gpu in (115.0, 500.0, 900.0, 1300.0) for mem in (665.0, 2133.0, 3199.0)
]  # fmt: skip


@pytest.mark.parametrize("law", MISSPECIFIED)
def test_a_misspecified_table_follows_another_law(law):
    changed = misspecified(ROWS, law)
    times = [after.minibatch_s / before.minibatch_s for before, after in zip(ROWS, changed, strict=True)]
    powers = [after.power_w / before.power_w for before, after in zip(ROWS, changed, strict=True)]
    assert max(max(each) / min(each) for each in (times, powers)) > 1.2
    assert changed[0].energy_j == pytest.approx(changed[0].minibatch_s * changed[0].power_w)
    if law == "falling":
        slow, fast = (next(row for row in changed if row.cpu_mhz == mhz) for mhz in (422.0, 2200.0))
        assert slow.power_w > fast.power_w * 0.9
    failed = replace(ROWS[0], minibatch_s=None, status="failed")
    assert misspecified([failed, *ROWS[1:]], law)[0] == failed


def test_the_record_is_of_these_bands():
    if not RECORD.exists():
        pytest.skip("no record in this checkout")
    lines = [line.split() for line in RECORD.read_text().splitlines()]
    family, checked = "", 0
    for words in lines:
        if words[:1] == ["SIMULATED"]:
            family = words[1].rstrip(":")
        elif words[:1] == ["all"] and words[1] in BANDS.get(family, {}):
            low, high = BANDS[family][words[1]]
            assert low <= float(words[3]) <= high, (family, words)
            checked += 1
    assert checked == sum(map(len, BANDS.values()))

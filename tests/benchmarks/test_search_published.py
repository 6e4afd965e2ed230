"""The medians of the study's strategies stay in their bands: those that take a second, and those of the record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from search_published import BANDS, TABLES, edgetune, outside, table

RECORD = Path(__file__).parents[2] / "examples" / "results" / "search-published.txt"


def test_a_median_outside_its_band_is_named():
    beside = [
        {"workload": "all", "strategy": "gmd", "ours": 0.2},
        {"workload": "lstm", "strategy": "gmd", "ours": 99.0},
    ]
    (line,) = outside("train", beside)
    assert line.startswith("train gmd: median 0.2 %, not within")
    assert outside("infer", beside) == []


def test_two_networks_of_the_study_are_within_the_bands(tmp_path):
    paths = [str(table(tmp_path, network, "train", "16")) for network in TABLES["train"][0][:2]]
    printed = edgetune("search", "evaluate", *paths, "--strategies", "gmd-study:10,random-study:50,random-study:250",
                     "--seeds", "3", "--all", "--json", "-q", "-o", str(tmp_path / "e.parquet"))  # fmt: skip
    medians = {f"{row['strategy']}": 100 * row["median"] for row in json.loads(printed)["results"]}
    for strategy, name in (("gmd-study:10", "gmd"), ("random-study:50", "rnd50"), ("random-study:250", "rnd250")):
        low, high = BANDS["train"][name]
        assert low <= medians[strategy] <= high


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

"""``edgetune roofline MODEL --tune 5% --device recorded:FILE``: foreseen from peaks, chosen among a table's rows."""

import json
from dataclasses import replace

import pytest
from command_line import assert_two_lines

from edgetune.artifacts.io import read_profile, write
from edgetune.cli.main import run

TWIN = ("--device", "twin:orin-agx")
MODES = "cpu_mhz=1036.8|2201.6,gpu_mhz=318.75|522.75|726.75|930.75|1134.75|1300.5,mem_mhz=665.6|2133|3199"
NETWORKS = ("resnet50", "lstm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables of two networks in 36 modes, and peaks of the same device in 12 of its modes."""
    folder = tmp_path_factory.mktemp("recorded")
    for network in NETWORKS:
        table = ("-t", "infer", "--modes", MODES, "-o", str(folder / f"{network}.parquet"), "--quiet")
        assert run(["profile", f"zoo:{network}", *TWIN, *table]) == 0
    clocks = "gpu_mhz=318.75|726.75|1134.75|1300.5,mem_mhz=665.6|2133|3199"
    assert run(["roofline", *TWIN, "--modes", clocks, "-o", str(folder / "peaks.yaml"), "--quiet", "--json"]) == 0
    return folder


def tuned(edgetune, folder, network, *more, table=None):
    recorded = f"recorded:{table or folder / f'{network}.parquet'}"
    peaks = ("--peaks", str(folder / "peaks.yaml"))
    return edgetune("roofline", f"zoo:{network}", "--tune", "5%", "--device", recorded, *peaks, *more)


def energies(rows):
    """Time and energy of a minibatch by mode."""
    return {row.mode: (row.minibatch_s, row.energy_j) for row in rows}


@pytest.mark.parametrize("network", NETWORKS)
def test_a_measured_row_wins(edgetune, folder, network):
    ended = tuned(edgetune, folder, network, "--json")
    assert ended.code == 0, ended.err
    plan, rows = json.loads(ended.out), read_profile(str(folder / f"{network}.parquet")).rows
    assert len(rows) == 36
    winner = next(row for row in rows if row.mode.knobs() == pytest.approx(plan["configuration"]["mode"]))
    assert plan["measured"]["minibatch_s"] == winner.minibatch_s
    assert plan["measured"]["power_w"] == winner.power_w
    known, tune = energies(rows), plan["conditions"]["tune"]
    reference = max(known, key=lambda mode: tuple(mode.knobs().values()))
    assert tune["reference"] == pytest.approx(reference.knobs())
    limit = 1.05 - tune["model_error_share"]  # the table is the twin's, and so is its error
    assert tune["model_error_share"] == 0.03
    within = {mode: joules for mode, (seconds, joules) in known.items() if seconds <= limit * known[reference][0]}
    assert winner.mode in within
    least = 1 - min(within.values()) / known[reference][1]
    saving = 1 - within[winner.mode] / known[reference][1]
    assert tune["measured_saving_share"] == pytest.approx(saving)
    assert saving > 0.7 * least > 0
    assert plan["search"]["points_measured"] <= 6


def test_modes_are_chosen_among_those_asked_for(edgetune, folder):
    ended = tuned(edgetune, folder, "resnet50", "--modes", "gpu_mhz=1134.75|1300.5,cpu_mhz=2201.6", "--json")
    assert json.loads(ended.out)["configuration"]["mode"]["gpu_mhz"] == 1134.75


def test_a_table_with_points_twice_and_rows_that_failed(edgetune, folder, tmp_path):
    """The newest counts; the mode that would win has failed, and another wins."""
    profile = read_profile(str(folder / "resnet50.parquet"))
    best = json.loads(tuned(edgetune, folder, "resnet50", "--json").out)["configuration"]["mode"]
    failed = {"status": "failed", "reason": "crashed", "minibatch_s": None, "power_w": None, "energy_j": None}
    rows = tuple(replace(row, **failed) if row.mode.knobs() == pytest.approx(best) else row for row in profile.rows)
    file = tmp_path / "broken.parquet"
    write(replace(profile, rows=(*rows, rows[0])), file)
    ended = tuned(edgetune, folder, "resnet50", "--json", table=file)
    assert ended.code == 0, ended.err
    plan = json.loads(ended.out)
    assert plan["configuration"]["mode"] != pytest.approx(best)
    assert "duplicate-points" in [caution["code"] for caution in plan["warnings"]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("zoo:resnet50",),
        ("zoo:resnet18", "--peaks", "peaks.yaml"),
        ("zoo:resnet50", "--peaks", "peaks.yaml", "--batch-sizes", "4"),
        ("zoo:resnet50", "--peaks", "other.yaml"),
    ],
)
def test_invalid_requests_are_two_lines(edgetune, folder, monkeypatch, arguments):
    monkeypatch.chdir(folder)
    (folder / "other.yaml").write_text(
        (folder / "peaks.yaml").read_text(encoding="utf-8").replace("twin:orin-agx", "host")
    )
    ended = edgetune("roofline", *arguments, "--tune", "5%", "--device", "recorded:resnet50.parquet")
    assert_two_lines(ended, 2)


def test_a_table_without_power_is_refused(edgetune, folder, tmp_path):
    profile, file = read_profile(str(folder / "resnet50.parquet")), tmp_path / "dark.parquet"
    write(replace(profile, rows=tuple(replace(row, power_w=None, energy_j=None) for row in profile.rows)), file)
    ended = tuned(edgetune, folder, "resnet50", table=file)
    assert ended.code == 2

"""The figures of the thesis beside ours: cases are as described, and each section has a line for each value."""

from argparse import Namespace
from pathlib import Path

import pytest
import schedule_thesis
from schedule_thesis import Thesis, case_of

DATA = Path(__file__).parents[3] / "shared" / "data" / "edgecaffe"


def thesis(**options):
    if not DATA.is_dir():
        pytest.skip(f"the study's layers are not here: {DATA}")
    given = {"prepared": None, "repeats": 1, "limit": 1.0, "images": 3, "little_mib": 320}
    return Thesis(Namespace(data=DATA, **{**given, **options}))


def test_cases_are_chains_with_the_memory_and_the_durations_asked_for():
    case = case_of([4, 3], seed=1, memory=0.0)
    assert [len(network.layers) for network in case.networks.values()] == [4, 3]
    slower, roomy = case_of([4, 3], seed=1, slower=2.0), case_of([4, 3], seed=1)
    assert roomy.budget_bytes == slower.budget_bytes > case.budget_bytes
    for one, other in zip(roomy.networks.values(), slower.networks.values(), strict=True):
        assert other.service_s == pytest.approx(2 * one.service_s)


def ratios(lines):
    return [float(ours.partition(" ")[0].lstrip("x")) for _, _, ours in lines]


def test_little_memory_makes_a_whole_network_slow_and_two_at_once_slower():
    found = thesis()
    roomy, enough, half, quarter = ratios(found.little_memory())
    assert roomy == enough == 1.0 < half < quarter
    roomy, tight, tighter = ratios(found.coordination())
    assert roomy < tighter < tight


def test_memory_taken_for_half_of_what_it_is_slows_masa_down():
    lines = list(thesis().wrong_estimates())
    found = {what: float(ours.partition(" ")[0].lstrip("x")) for what, _, ours in lines}
    assert found["masa, memory x0.5"] > found["masa, memory x1.5"] > found["masa, memory x1.0"] == 1.0


@pytest.mark.slow
def test_without_the_studys_tables_layers_are_measured_here(tmp_path, monkeypatch):
    monkeypatch.setattr(schedule_thesis, "CAFFE_MB", {"AgeNet": 183})
    for _ in range(2):  # the second time they are there
        found = Thesis(Namespace(data=tmp_path, prepared=None, repeats=1, limit=1.0, images=3, little_mib=320))
        ((_, _, ours),) = found.saved()
        assert ours == "15.6%, 15.6%"  # its first fully connected layer holds the rest
        assert {"masa", "reuse"} == {what.partition(",")[0] for what, _, _ in found.wrong_estimates()}


def test_table_of_files_says_what_it_needs():
    assert [ours for _, _, ours in thesis().files()] == ["not run: --prepared FOLDER"]


def test_more_workers_bring_masa_nearer_to_the_optimum():
    pytest.importorskip("ortools", reason="the optimum needs OR-Tools: pip install 'edgetune[optimum]'")
    lines = list(thesis().masa_beside_optimum())
    assert [what for what, _, _ in lines] == [f"{workers} workers" for workers in range(1, 8)]
    assert lines[-1][2].startswith("masa 1.000,")
    assert not lines[2][2].startswith("masa 1.000,")

"""``edgetune search sensitivity``: what a wrong proxy costs, as a table and in JSON."""

import json

import pytest

from edgetune.cli.command import Terminal
from edgetune.cli.search import sensitivity
from edgetune.errors import InfeasibleError, InputError
from edgetune.workflows.search.options import SensitivityOptions

PROFILE = """workload,task,batch_size,gpu_mhz,minibatch_s,power_w
net,train,8,100,4,4
net,train,8,200,2,6
net,train,32,100,8,5
net,train,32,200,4,9
"""
RUNS = "workload,dataset,batch_size,epochs\nproxy,{0},8,{1}\nproxy,{0},32,{2}\n"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text(PROFILE)
    (tmp_path / "a.csv").write_text(RUNS.format("digits", 4, 9))
    (tmp_path / "b.csv").write_text(RUNS.format("letters", 10, 10))
    return tmp_path


def ask(*tables, convergence=(), **more):
    terminal = Terminal(json=more.pop("json", False), quiet=more.pop("quiet", False))
    sensitivity(SensitivityOptions("p.csv", tables, convergence=convergence, **more), terminal)


def test_matrix_and_baselines_for_people(files, capsys):
    ask("b.csv", convergence=["a.csv"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("time to accuracy lost by a wrong proxy")
    assert lines[1].split() == ["digits", "letters"]
    assert lines[2].split() == ["digits", "0.0%", "12.5%"]
    assert lines[3].split() == ["letters", "100.0%", "0.0%"]
    assert lines[4].split() == ["mean", "of", "others", "100.0%", "12.5%"]
    assert "batch 8 [GPU 200 MHz]" in lines[7]


def test_matrix_for_machines(files, capsys):
    ask("a.csv", "b.csv", json=True, power_budget="6W")
    found = json.loads(capsys.readouterr().out)
    # at 6 W batch 32 may only have clock 100: 0.25 s x 10 epochs, as batch 8 at clock 200
    assert found["chosen"]["digits"] == {
        "batch_size": 8,
        "mode": {"gpu_mhz": 200.0},
        "time_s_per_sample": 1.0,
        "energy_j_per_sample": 6.0,
    }
    assert found["lost"]["digits"]["digits"] == 0
    assert found["baselines"]["digits"]["worst_case"] == {"gpu_mhz": 100.0}
    assert found["baselines"]["digits"]["largest_batch"]["times_faster"] == 2.25
    assert found["baselines"]["digits"]["best_batch"]["times_less_energy"] == pytest.approx(8 / 6)


def test_the_budget_may_be_of_the_peak(files, capsys):
    header, *rows = PROFILE.splitlines()
    peaks = [f"{header},power_peak_w", *(f"{row},{float(row.rsplit(',', 1)[1]) + 1}" for row in rows)]
    (files / "p.csv").write_text("\n".join(peaks))
    ask("a.csv", "b.csv", json=True, power_peak_budget="7W")
    by_peak = json.loads(capsys.readouterr().out)
    ask("a.csv", "b.csv", json=True, power_budget="6W")
    assert by_peak == json.loads(capsys.readouterr().out)


def test_tables_of_one_data_set_are_named_by_their_files(files, capsys):
    (files / "b.csv").write_text(RUNS.format("digits", 10, 10))
    ask("a.csv", "b.csv")
    assert capsys.readouterr().out.splitlines()[1].split() == ["a", "b"]


def test_a_size_that_misses_is_reported_and_never_chosen(files, capsys):
    (files / "b.csv").write_text(RUNS.format("letters", "", 10))
    ask("a.csv", "b.csv")
    told = capsys.readouterr()
    assert "batch size 8: its run missed the target" in told.err
    assert told.out.splitlines()[3].split() == ["letters", "never", "0.0%"]


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (["a.csv"], "1 convergence table was given"),
        ([], "no convergence table was given"),
        (["a.csv", "a.csv"], "given twice"),
        (["a.csv", "lacking.csv"], "lacking.csv has no runs at batch size 8"),
        (["a.csv", "missed.csv"], "missed.csv: at no batch size did most runs reach the target"),
        (["a.csv", "none.csv"], "none.csv does not exist"),
    ],
)
def test_tables_that_do_not_do(files, tables, message):
    (files / "lacking.csv").write_text("workload,batch_size,epochs\nproxy,32,3\n")
    (files / "missed.csv").write_text(RUNS.format("x", "", ""))
    with pytest.raises(InputError) as caught:
        ask(*tables)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"objective": "tiem"}, "unknown objective: 'tiem'"),
        ({"workload": "nett"}, "unknown workload: 'nett'"),
        ({"power_budget": "6"}, "--power-budget"),
    ],
)
def test_words_that_do_not_do(files, more, message):
    with pytest.raises(InputError) as caught:
        ask("a.csv", "b.csv", **more)
    assert message in caught.value.message


def test_a_budget_that_nothing_keeps(files):
    with pytest.raises(InfeasibleError, match="the lowest draws 4 W"):
        ask("a.csv", "b.csv", power_budget="3W")


def test_a_profile_without_training_or_of_several_networks(files):
    (files / "p.csv").write_text(PROFILE.replace("train", "infer"))
    with pytest.raises(InputError, match=r"p\.csv has no training rows"):
        ask("a.csv", "b.csv")
    (files / "p.csv").write_text(PROFILE + "other,train,8,100,4,4\n")
    with pytest.raises(InputError, match="several networks: net, other"):
        ask("a.csv", "b.csv")

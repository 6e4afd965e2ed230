"""What is said of time to accuracy: which epochs count, and the baselines beside an answer."""

import pytest

from edgetune.artifacts.convergence import KIND, VERSION, Convergence, ConvergenceRow
from edgetune.artifacts.header import Header
from edgetune.artifacts.profile import ProfileRow
from edgetune.cli.accuracy_report import command_of, tell_baselines, trained_epochs
from edgetune.cli.screen import Screen
from edgetune.errors import InputError
from edgetune.search.accuracy import accuracy_problem, compare

INPUTS = {"workload": {"reference": "proxy:cnn"}, "dataset": {"reference": "my data.npz"}}
OPTIONS = {"target_accuracy": 0.9, "max_epochs": 40, "optimizer": "adam", "learning_rate": 0.001}
RUNS = (
    ConvergenceRow("proxy:cnn", 8, 2.0),
    ConvergenceRow("proxy:cnn", 32, 3.0),
    ConvergenceRow("proxy:cnn", 64, None, status="missed"),
)
TABLE = Convergence(Header.new(KIND, VERSION, inputs=INPUTS, conditions={"options": OPTIONS}), RUNS)


def test_sizes_that_missed_are_told_and_left_out(capsys):
    assert trained_epochs(TABLE, [8, 64], name="c.parquet", screen=Screen()) == {8: 2.0, 32: 3.0}
    assert "batch size 64: its run missed the target, so it is not chosen" in capsys.readouterr().err
    trained_epochs(TABLE, [8], name="c.parquet", screen=Screen())
    assert capsys.readouterr().err == ""


def test_sizes_never_trained_are_an_error_with_the_command_that_adds_them():
    with pytest.raises(InputError) as caught:
        trained_epochs(TABLE, [8, 16, 128], name="c.parquet", screen=Screen())
    assert "no runs at batch size 16, 128" in caught.value.message
    assert caught.value.hint == (
        "add them: edgetune profile --convergence proxy:cnn --dataset 'my data.npz' --target-accuracy 0.9 "
        "--max-epochs 40 --optimizer adam --learning-rate 0.001 -o c.parquet --batch-sizes 16,128"
    )


def test_command_for_a_table_of_others_leaves_the_model_open():
    foreign = Convergence(Header(KIND, VERSION, "unknown", "unknown"), RUNS)
    assert command_of(foreign, "c.csv") == "edgetune profile --convergence MODEL -o c.csv"


def test_baselines_are_said_beside_the_answer(capsys):
    def row(size, clock, time_s, power_w):
        return ProfileRow("net", "train", size, time_s, gpu_mhz=clock, power_w=power_w)

    rows = [row(8, 100, 4.0, 4.0), row(8, 200, 2.0, 6.0), row(32, 100, 8.0, 5.0), row(32, 200, 4.0, 9.0)]
    tell_baselines(compare(accuracy_problem({8: 4.0, 32: 9.0}, power_budget_w=6.0), rows), Screen())
    first, largest, best = capsys.readouterr().err.splitlines()
    assert "GPU 100 MHz" in first
    assert "its largest batch (32) takes 2.25x the time and 1.88x the energy of the answer" in largest
    assert "its best batch (8) takes 2.00x the time and 1.33x the energy of the answer" in best
    tell_baselines(compare(accuracy_problem({8: 4.0, 32: 9.0}), [rows[0], rows[3]]), Screen())
    assert "no baselines to compare with: no mode was measured at every batch size" in capsys.readouterr().err

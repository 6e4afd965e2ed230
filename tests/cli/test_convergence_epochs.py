"""Which epochs of a convergence table count, and what is said of those that do not."""

import pytest

from edgetune.artifacts.convergence import KIND, VERSION, Convergence, ConvergenceRow
from edgetune.artifacts.header import Header
from edgetune.cli.screen import Screen
from edgetune.errors import InputError
from edgetune.workflows.profile.convergence import command_of, trained_epochs

INPUTS = {"workload": {"reference": "proxy:cnn"}, "dataset": {"reference": "my data.npz"}}
OPTIONS = {"target_accuracy": 0.9, "max_epochs": 40, "optimizer": "adam", "learning_rate": 0.001}
RUNS = (
    ConvergenceRow("proxy:cnn", 8, 2.0),
    ConvergenceRow("proxy:cnn", 32, 3.0),
    ConvergenceRow("proxy:cnn", 64, None, status="missed"),
)
TABLE = Convergence(Header.new(KIND, VERSION, inputs=INPUTS, conditions={"options": OPTIONS}), RUNS)


def test_sizes_that_missed_are_reported_and_left_out(capsys):
    assert trained_epochs(TABLE, [8, 64], name="c.parquet", reporter=Screen()) == {8: 2.0, 32: 3.0}
    assert "batch size 64: its run missed the target, so it is not chosen" in capsys.readouterr().err
    trained_epochs(TABLE, [8], name="c.parquet", reporter=Screen())
    assert capsys.readouterr().err == ""


def test_sizes_never_trained_are_an_error_with_the_command_that_adds_them():
    with pytest.raises(InputError) as caught:
        trained_epochs(TABLE, [8, 16, 128], name="c.parquet", reporter=Screen())
    assert "no runs at batch size 16, 128" in caught.value.message
    assert caught.value.hint == (
        "add them: edgetune profile --convergence proxy:cnn --dataset 'my data.npz' --target-accuracy 0.9 "
        "--max-epochs 40 --optimizer adam --learning-rate 0.001 -o c.parquet --batch-sizes 16,128"
    )


def test_command_for_a_table_of_others_leaves_the_model_open():
    foreign = Convergence(Header(KIND, VERSION, "unknown", "unknown"), RUNS)
    assert command_of(foreign, "c.csv") == "edgetune profile --convergence MODEL -o c.csv"

"""The convergence table: there and back, tables of others, and what is concluded from its runs."""

import statistics

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.convergence import KIND, VERSION, Convergence, ConvergenceRow, epochs_of
from edgetune.artifacts.header import Header
from edgetune.errors import InputError


def run(batch_size: int, epochs: float | None, **more: object) -> ConvergenceRow:
    status = "reached" if epochs is not None else "missed"
    return ConvergenceRow("proxy:cnn", batch_size, epochs, **{"status": status, **more})  # type: ignore[arg-type]


def table(*rows: ConvergenceRow) -> Convergence:
    return Convergence(Header.new(KIND, VERSION), rows)


def read_csv(text: str) -> Convergence:
    return io.from_bytes(text.encode(), kind="convergence", name="runs.csv")


def test_csv_of_others_needs_three_columns_and_says_what_missed() -> None:
    found = read_csv("workload,batch_size,epochs\nbert,8,3\nbert,16,\nbert,32,nan\n")
    assert [(row.batch_size, row.epochs, row.status) for row in found.rows] == [
        (8, 3.0, "reached"),
        (16, None, "missed"),
        (32, None, "missed"),
    ]
    assert found.header.tool == "unknown"
    assert found.header.inputs["table"]["name"] == "runs.csv"


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("workload,batch_size\nbert,8\n", "runs.csv has no column epochs", "found: workload"),
        ("workload,batch_size,epochs,target_metric\nb,8,3,80\n", "'target_metric'", "rename it to target_accuracy"),
        ("workload,batch_size,epochs,colour\nb,8,3,red\n", "'colour'", "drop it; known: workload"),
        ("workload,batch_size,epochs\nb,8,3\nb,8,-1\n", "row 2: epochs is -1", "above zero"),
        ("workload,batch_size,epochs,status\nb,8,,reached\n", "epochs is empty though the status is reached", "missed"),
        ("workload,batch_size,epochs,status\nb,8,2,missed\n", "epochs is 2 though the status is missed", "missed"),
    ],
)
def test_tables_that_cannot_be_training_runs(text: str, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        read_csv(text)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_epochs_are_the_mean_over_seeds_that_reached() -> None:
    runs = table(run(8, 2.0), run(8, 3.0), run(8, 4.0, seed=2), run(8, None), run(16, 6.5), run(16, 100.0, seed=1))
    assert epochs_of(runs).by_batch == {8: 3.0, 16: 53.25}
    assert epochs_of(table(run(8, 1.0), run(8, 2.0), run(8, 9.0)), average=statistics.median).by_batch == {8: 2.0}


def test_sizes_that_mostly_missed_are_absent_and_failed_runs_tell_nothing() -> None:
    found = epochs_of(
        table(
            run(8, 2.0),
            run(8, None, status="failed"),
            run(16, 3.0),
            run(16, None),
            run(32, None),
            run(64, None, status="failed"),
            run(128, None),
            run(128, None),
        )
    )
    assert found.by_batch == {8: 2.0}
    assert found.absent == {
        16: "1 of 2 runs reached the target",
        32: "its run missed the target",
        64: "every run failed",
        128: "none of 2 runs reached the target",
    }


@pytest.mark.parametrize("what", ["dataset", "target_accuracy", "optimizer"])
def test_runs_of_several_tasks_are_not_averaged(what: str) -> None:
    values = {"dataset": ("a", "b"), "target_accuracy": (0.8, 0.9), "optimizer": ("adam", "adamw")}[what]
    with pytest.raises(InputError, match=f"several tasks: {what} is {values[0]}, {values[1]}"):
        epochs_of(table(*(run(8, 1.0, **{what: value}) for value in values)))

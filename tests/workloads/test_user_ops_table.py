"""A network with its operators given: the table is taken as it is, and only for what it is a table of."""

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.ops import OpsTable
from edgetune.errors import InputError
from edgetune.workloads.costs import operator_table
from edgetune.workloads.resolve import resolve, with_ops


@pytest.fixture(scope="module")
def table():
    return operator_table(resolve("zoo:squeezenet"), "train", 4)


@pytest.fixture
def file(tmp_path, table):
    path = tmp_path / "ops.parquet"
    io.write(table, path)
    return str(path)


def test_the_table_stands_in_for_the_graph(file, table):
    workload = with_ops("zoo:squeezenet", file)
    assert (workload.kind, workload.name, workload.sha256) == ("zoo", "squeezenet", resolve("zoo:squeezenet").sha256)
    assert operator_table(workload, "train", 4) == io.read(OpsTable, file)
    assert operator_table(workload, "train", 4).rows == table.rows


@pytest.mark.parametrize(
    ("task", "size", "precision", "option"),
    [
        ("infer", 4, "fp32", "--task train"),
        ("train", 8, "fp32", "--batch-sizes 4"),
        ("train", 4, "fp16", "--precision fp32"),
    ],
)
def test_a_table_is_for_one_task_batch_size_and_precision(file, task, size, precision, option):
    with pytest.raises(InputError, match="the table is for squeezenet train, batch size 4, fp32") as caught:
        operator_table(with_ops("zoo:squeezenet", file), task, size, precision=precision)
    assert caught.value.hint.startswith(f"{option}, or ")

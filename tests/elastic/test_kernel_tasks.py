"""From a document of kernel tasks to tasks that can be run."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.kernel_tasks import KernelTasks
from edgetune.errors import InputError
from edgetune.stages.elastic import tasks as elastic_tasks
from edgetune.stages.elastic.front import compiled
from edgetune.stages.elastic.gpu import (
    Call,
    KernelBuffer,
    KernelSequence,
    Logical,
    Pointer,
    Resources,
    Scalar,
    find_gpu,
)
from edgetune.stages.elastic.loop import check_tasks
from edgetune.stages.elastic.model import GpuTimingModel, check_fits, demand_of
from edgetune.stages.elastic.ptx.parse import parse
from edgetune.stages.elastic.tasks import tasks_of

TASKS = """kind: kernel_tasks
version: 1
tasks:
- {name: detect, network: 'mdtb:alexnet', priority: 1, arrivals: 'uniform:10/s', deadline: 50ms}
- {name: sort, network: mine}
- {name: listen, network: short}
networks:
  short: {mdtb: lstm, sizes: {steps: 4}}
  mine:
    source: sort.cu
    buffers: {data: {shape: [49, 4], role: input}, out: [7]}
    calls:
    - {kernel: split, grid: [49], block: [64], arguments: [data, out, {int: -49}, {uint: 3}, {float: 0.5}, {double: 2}],
       flop_per_block: 100, registers: 40, static_shared: 1KiB}
    - {kernel: merge, grid: [7], block: [128], shared: 2KiB, block_time: 20us}
"""


def tasks(folder, text=TASKS, source="extern __global__ void split();"):
    (folder / "sort.cu").write_text(source)
    document = io.from_bytes(text.encode(), kind="kernel_tasks", name="tasks.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elastic_tasks, "mdtb_network", lambda name, **sizes: KernelSequence(f"{name} {sizes}", ()))
        return tasks_of(document, folder=folder)


def test_networks_of_the_benchmark_are_asked_for_by_name_and_sizes(tmp_path):
    detect, _, listen = tasks(tmp_path)
    assert (detect.network.name, detect.priority, detect.arrivals, detect.deadline_s) == (
        "alexnet {}", 1, "uniform:10/s", 0.05,
    )  # fmt: skip
    assert listen.network.name == "lstm {'steps': 4}"


def test_a_network_of_ones_own_has_its_source_buffers_and_packed_arguments(tmp_path):
    network = tasks(tmp_path)[1].network
    assert (network.name, network.source) == ("mine", "extern __global__ void split();")
    assert network.buffers == (KernelBuffer("data", (49, 4), "float32", "input"), KernelBuffer("out", (7,)))
    split, merge = network.calls
    assert split.arguments == (
        Pointer("data"), Pointer("out"), Scalar(struct.pack("<i", -49)), Scalar(struct.pack("<I", 3)),
        Scalar(struct.pack("<f", 0.5)), Scalar(struct.pack("<d", 2.0)),
    )  # fmt: skip
    assert (split.logical.blocks, split.logical.threads, split.flop_per_block) == (49, 64, 100.0)
    assert split.resources == {1: Resources(40, 1024)}
    assert merge.block_s == pytest.approx(20e-6)
    assert (merge.logical.dynamic_shared_bytes, merge.resources) == (2048, {1: Resources(32)})


def test_sizes_of_64_bits_are_values_too(tmp_path):
    for said, packed in (("{uint64: 5000000000}", "<Q"), ("{int64: 5000000000}", "<q")):
        split = tasks(tmp_path, TASKS.replace("{int: -49}", said))[1].network.calls[0]
        assert split.arguments[2] == Scalar(struct.pack(packed, 5_000_000_000))


@pytest.mark.parametrize(
    "wrong",
    ["{int: 0.5}", "{uint: -1}", "{uint64: -1}", "{int64: 9007199254740994}", "{int: 3000000000}", "{float: 1e300}"],
)
def test_a_value_that_does_not_fit_its_type_is_refused(tmp_path, wrong):
    with pytest.raises(InputError, match=r"network mine: kernel split: .* is no value of type"):
        tasks(tmp_path, TASKS.replace("{int: -49}", wrong))


def test_more_than_three_dimensions_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"network mine: kernel merge: \[1, 1, 1, 7\] is not one to three numbers"):
        tasks(tmp_path, TASKS.replace("grid: [7]", "grid: [1, 1, 1, 7]"))


def test_a_source_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"sort\.cuu does not exist"):
        tasks(tmp_path, TASKS.replace("sort.cu", "sort.cuu"))


def test_the_example_can_be_simulated_and_run():
    folder = Path(__file__).parents[2] / "examples"
    tasks = tasks_of(io.read(KernelTasks, folder / "kernels.yaml"), folder=folder)
    assert [task.name for task in tasks] == ["detect", "label", "multiply"]
    for task in tasks:
        assert task.network.source
        entries = parse(compiled(task.network.source, "x.cu", "sm_87"), "x.ptx").entries
        takes = {each.name: len(each.parameters) for each in entries}
        for call in task.network.calls:
            assert len(call.arguments) == takes[call.kernel]
            check_fits(call, find_gpu("xavier"))
            demand_of(call, find_gpu("xavier"), GpuTimingModel())


def test_a_part_of_the_multiprocessors_is_read_and_only_for_best_effort_tasks(tmp_path):
    text = TASKS.replace("{name: sort, network: mine}", "{name: sort, network: mine, sms: 4}")
    assert [each.sms for each in tasks(tmp_path, text)] == [None, 4, None]
    document = io.from_bytes(text.encode(), kind="kernel_tasks", name="tasks.yaml")
    assert io.from_bytes(document.to_bytes("yaml"), kind="kernel_tasks", name="again.yaml").tasks == document.tasks
    detect, *_ = tasks(tmp_path, TASKS.replace("priority: 1,", "priority: 1, sms: 4,"))
    network = KernelSequence("n", (Call("k", Logical((1, 1, 1), (1, 1, 1))),))
    with pytest.raises(InputError, match="task detect is critical, and sms: 4"):
        check_tasks([replace(detect, network=network)])
    with pytest.raises(InputError, match=r"tasks\.sort\.sms is 0"):
        tasks(tmp_path, TASKS.replace("{name: sort, network: mine}", "{name: sort, network: mine, sms: 0}"))

"""Kernel tasks as YAML and kernel timelines as Parquet: what is written is read, what makes no sense is refused."""

from dataclasses import replace

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.header import Header
from edgetune.artifacts.kernel_tasks import BufferEntry, CallEntry, NetworkEntry, TaskEntry
from edgetune.artifacts.kernel_timeline import KernelTimeline, KernelTimelineRow
from edgetune.errors import InputError

TASKS = """kind: kernel_tasks
version: 1
gpu: xavier
duration: 500ms
tasks:
- {name: detect, network: 'mdtb:alexnet', priority: 1, arrivals: 'uniform:10/s', deadline: 50ms}
- {name: sort, network: mine}
- {name: listen, network: short}
networks:
  short: {mdtb: lstm, sizes: {steps: 4}}
  mine:
    source: sort.cu
    buffers: {data: [49, 1024], out: {shape: [7], role: output}}
    calls:
    - {kernel: split, grid: [49, 4], block: [16, 16], shared: 2KiB, arguments: [data, {int: 49}], flop_per_block: 1e6,
       bytes_per_block: 64KiB, registers: 40}
    - {kernel: merge, grid: [7], block: [128], block_time: 20us}
"""


def read(text):
    return io.from_bytes(text.encode(), kind="kernel_tasks", name="tasks.yaml")


def test_a_document_written_by_hand_is_read():
    tasks = read(TASKS)
    assert (tasks.gpu, tasks.policy, tasks.duration, tasks.seed) == ("xavier", "elastic", "500ms", 0)
    assert tasks.tasks == (
        TaskEntry("detect", "mdtb:alexnet", 1, "uniform:10/s", "50ms"),
        TaskEntry("sort", "mine"),
        TaskEntry("listen", "short"),
    )
    split = CallEntry("split", (49, 4), (16, 16), "2KiB", ("data", {"int": 49}), 1e6, "64KiB", registers=40)
    merge = CallEntry("merge", (7,), (128,), block_time="20us")
    buffers = {"data": (49, 1024), "out": BufferEntry((7,), role="output")}
    assert tasks.networks == {
        "short": NetworkEntry("lstm", {"steps": 4}),
        "mine": NetworkEntry(source="sort.cu", calls=(split, merge), buffers=buffers),
    }
    assert tasks.sources == ["sort.cu"]


def test_what_is_written_is_read_again():
    tasks = read(TASKS)
    again = io.from_bytes(tasks.to_bytes(), kind="kernel_tasks", name="again.yaml")
    assert again == tasks
    assert io.document_kind(tasks.to_bytes()) == "kernel_tasks"


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("priority: 1", "priority: -1", "tasks.detect.priority is -1"),
        ("priority: 1", "urgency: 1", "unknown key 'tasks.detect.urgency'"),
        ("duration: 500ms", "duration: 500", "duration has no unit|duration is 500"),
        ("duration: 500ms", "seed: -1", "seed is -1"),
        ("grid: [7]", "grid: [7, 0]", r"calls.1.grid.1 is 0"),
        ("block: [128]", "blok: [128]", "unknown key 'networks.mine.calls.1.blok'"),
        ("flop_per_block: 1e6", "flop_per_block: -1", "flop_per_block is -1"),
        ("bytes_per_block: 64KiB", "bytes_per_block: -5", "bytes_per_block is -5"),
        ("data: [49, 1024]", "data: [49, 0]", "buffers.data.1 is 0"),
        ("role: output", "role: result", "networks.mine.buffers.out.role is 'result'$"),
        ("data: [49, 1024]", "data: 5", "networks.mine.buffers.data is 5$"),
        ("block: [128]", "block: 128", "networks.mine.calls.1.block is 128$"),
        ("block_time: 20us", "block_time: 20", "networks.mine.calls.1.block_time is 20$"),
        ("{int: 49}", "{int: many}", "networks.mine.calls.0.arguments.1.int is 'many'$"),
        ("kernel: merge, ", "", "has no networks.mine.calls.1.kernel$"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(old, new, why):
    assert old in TASKS
    with pytest.raises(InputError, match=why):
        read(TASKS.replace(old, new))


def test_a_number_for_a_quantity_is_told_to_have_a_unit():
    with pytest.raises(InputError, match="duration is 500") as refused:
        read(TASKS.replace("duration: 500ms", "duration: 500"))
    assert "with its unit, e.g. 80ms" in refused.value.hint


ROW = KernelTimelineRow("launch", "elastic", 2.0, 0, "a", 0, 0, 0, "k", 0, 4, 1, True, 2, 64, started_s=1.0)


def timeline_bytes(*rows):
    return KernelTimeline(Header.new("kernel_timeline", 1), rows).to_bytes()


def test_a_timeline_is_read_as_it_was_written():
    stay = KernelTimelineRow("residency", "elastic", 2.0, task="a", launch=0, blocks=2, sm=1, started_s=1.0)
    found = io.from_bytes(timeline_bytes(ROW, stay), kind="kernel_timeline", name="t.parquet")
    assert found.rows == (ROW, stay)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (replace(ROW, started_s=3.0), "finished_s is 2, before started_s"),
        (replace(ROW, count=0), "count is 0"),
        (replace(ROW, first=-1), "first is -1"),
        (replace(ROW, kernel=None), "a row of event launch has no kernel"),
        (replace(ROW, event="residency"), "a row of event residency has no sm"),
        (replace(ROW, event="request", deadline_s=1.5, arrived_s=0.5, met=True), "met is true"),
    ],
)
def test_what_cannot_have_happened_is_refused(row, why):
    with pytest.raises(InputError, match=why):
        io.from_bytes(timeline_bytes(row), kind="kernel_timeline", name="t.parquet")


def test_a_launch_that_failed_may_have_no_start():
    row = replace(ROW, started_s=None, status="failed", reason="out of resources")
    assert io.from_bytes(timeline_bytes(row), kind="kernel_timeline", name="t.parquet").rows == (row,)

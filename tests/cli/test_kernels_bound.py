"""The worst case of critical latency, and ``--admit-within``, of ``simulate`` and ``bench`` on the model of a GPU."""

import re

import pytest

from edgetune.artifacts import io
from edgetune.artifacts.kernel_timeline import KernelTimeline


def network(kernel: str, block_time: str) -> str:
    call = f"{{kernel: {kernel}, grid: [8], block: [128], block_time: {block_time}}}"
    return f"\n    calls: [{call}, {call}]"


TASKS = f"""kind: kernel_tasks
version: 1
gpu: orin-nano
duration: 50ms
tasks:
- {{name: urgent, network: small, priority: 1, arrivals: 'uniform:100/s'}}
- {{name: quick, network: quick}}
- {{name: slow, network: slow}}
networks:
  small:{network("a", "500us")}
  quick:{network("b", "20us")}
  slow:{network("c", "400us")}
"""
SIMULATE = ("schedule", "kernels", "simulate", "tasks.yaml", "-o", "k.parquet")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tasks.yaml").write_text(TASKS)


def test_the_worst_case_is_told_beside_the_slowest_request(edgetune):
    ended = edgetune(*SIMULATE, "--policy", "sequential,multistream,elastic")
    assert ended.code == 0, ended.err
    told = re.sub(r"\s+", " ", ended.out)
    for policy in ("multistream", "elastic"):
        assert f"worst case by {policy}: urgent takes at most " in told
        assert "2 kernels x 400 µs (block of c of slow); the slowest took " in told
    assert "worst case by sequential" not in told
    assert "a bound leaves out what kernels beside each other cost" in told
    header = io.read(KernelTimeline, "k.parquet").header
    assert set(header.conditions["bounds"]) == {"multistream", "elastic"}
    assert header.conditions["refused"] == []


def test_a_task_that_would_break_it_is_left_out_by_all_policies(edgetune):
    ended = edgetune(*SIMULATE, "--policy", "sequential,elastic", "--admit-within", "10%")
    assert ended.code == 0, ended.err
    timeline = io.read(KernelTimeline, "k.parquet")
    assert {row.task for row in timeline.rows if row.event == "launch"} == {"urgent", "quick"}
    assert len(timeline.header.conditions["refused"]) == 1


def test_where_none_is_admitted(edgetune):
    ended = edgetune(*SIMULATE, "--policy", "elastic", "--admit-within", "1%", "--quiet")
    assert ended.code == 3
    least = re.search(r"from --admit-within (\d+)% on", ended.err)[1]
    assert edgetune(*SIMULATE, "--policy", "elastic", "--admit-within", f"{least}%").code == 0

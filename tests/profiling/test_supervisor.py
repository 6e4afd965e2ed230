"""The supervisor: one warm child, replaced after a failure and only then."""

import os

import pytest

from edgetune.devices.device import LiveSource
from edgetune.errors import InputError
from edgetune.stages.profiling.options import ProfileOptions
from edgetune.stages.profiling.supervisor import Supervisor

CPU = LiveSource(("CPUExecutionProvider",), "cpu")


@pytest.fixture
def supervise():
    opened = []

    def start(workload, **options) -> Supervisor:
        opened.append(Supervisor(CPU, workload, ProfileOptions(**options)))
        return opened[-1]

    yield start
    for supervisor in opened:
        supervisor.close()


def pid(supervisor) -> int:
    return supervisor._child.pid


def test_child_stays_for_the_next_point(supervise, training, point):
    supervisor = supervise(training())
    supervisor.open(point(1)).run(2)
    first = pid(supervisor)
    supervisor.open(point(4)).run(2)
    assert pid(supervisor) == first


def test_workload_is_loaded_again_for_another_batch_size_only(supervise, training, point, tmp_path):
    log = tmp_path / "made"
    source = (
        f"def make(batch_size):\n    with open({str(log)!r}, 'a') as f:\n        f.write(f'{{batch_size}} ')\n"
        "    return lambda: None\n"
    )
    supervisor = supervise(training(source))
    for batch_size, mhz in ((1, 300.0), (1, 600.0), (4, 600.0)):
        supervisor.open(point(batch_size, gpu_mhz=mhz)).run(1)
    assert log.read_text() == "1 4 "


@pytest.mark.parametrize("fault", ["raise ValueError", "__import__('os')._exit(1)"])
def test_failed_child_is_replaced(supervise, training, point, fault):
    source = (
        f"def make(batch_size):\n    def step():\n        if batch_size == 2:\n            {fault}\n    return step\n"
    )
    supervisor = supervise(training(source))
    supervisor.open(point(1)).run(1)
    first = pid(supervisor)
    with pytest.raises(InputError):
        supervisor.open(point(2)).run(1)
    supervisor.open(point(4)).run(1)
    assert pid(supervisor) != first


def test_hanging_point_costs_its_time_limit_and_no_more(supervise, training, point):
    source = "import time\ndef make(batch_size):\n    return lambda: time.sleep(0 if batch_size == 1 else 3600)\n"
    supervisor = supervise(training(source), point_timeout_s=1.0)
    with pytest.raises(InputError, match=r"within 1 s \(--point-timeout\)"):
        supervisor.open(point(2)).run(1)
    supervisor.open(point(1)).run(1)


def test_child_killed_between_points_is_replaced(supervise, training, point):
    supervisor = supervise(training())
    supervisor.open(point(1)).run(1)
    os.kill(pid(supervisor), 9)
    supervisor._child._process.wait()
    supervisor.open(point(1)).run(1)

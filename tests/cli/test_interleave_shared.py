"""Minibatches measured while the tenants take turns: what happens to one is not what happens to the others."""

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point
from edgetune.devices.host import open_host
from edgetune.workflows.interleave.points import TenantMeasurements, measure_shared
from edgetune.workflows.interleave.tenants import TenantSpec
from edgetune.workloads.resolve import resolve

JOB = """
import os, time

def make(batch_size):
    def step():
        if batch_size == 8:
            os._exit(3)
        time.sleep(batch_size * 0.001)
    step.save = step.load = lambda path: None
    return step
"""


def test_a_batch_size_that_crashes_leaves_the_others_to_be_measured(tmp_path):
    tenants, points = [], {}
    for name, sizes in (("a", (4, 8, 2)), ("b", (4,))):
        path = tmp_path / f"{name}.py"
        path.write_text(JOB)
        tenants.append(TenantMeasurements(TenantSpec(name, "train", str(path)), resolve(str(path))))
        points[name] = [Point(tenants[-1].workload.name, "train", size, Mode()) for size in sizes]
    device = open_host()
    rows = measure_shared(device, tenants, points, seed=0)
    assert [(row.batch_size, row.status) for row in rows["a"]] == [(4, "ok"), (8, "failed"), (2, "ok")]
    assert "exit code 3" in rows["a"][1].reason
    assert [row.status for row in rows["b"]] == ["ok"]
    assert rows["a"][0].minibatch_s > rows["a"][2].minibatch_s > 0.002

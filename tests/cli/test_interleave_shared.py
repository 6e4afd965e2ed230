"""Minibatches measured while the tenants take turns: what happens to one is not what happens to the others."""

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import Point, ProfileRow
from edgetune.devices.host import open_host
from edgetune.serving.arrivals import parse_arrivals
from edgetune.workflows.interleave.planning import choose_tenants, explained
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


def test_a_time_well_above_the_median_is_reported_with_its_statistic(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(JOB)
    lines = {}
    for name, row in {
        "p95": ProfileRow("net", "infer", 4, 0.000792, gpu_mhz=600.0, minibatch_p95_s=0.00274),
        "interval": ProfileRow("net", "infer", 4, 0.001, gpu_mhz=600.0, minibatch_ci95_high_s=0.002),
        "steady": ProfileRow("net", "infer", 4, 0.001, gpu_mhz=600.0, minibatch_p95_s=0.00101),
    }.items():
        asked = TenantSpec("net", "infer", str(path), latency_budget_s=1.0)
        known = TenantMeasurements(asked, resolve(str(path)), (row,))
        specs = {"net": parse_arrivals("uniform:4")}
        planned = choose_tenants([known], specs, [row.mode], budgets=None, best_effort=False, adapt=False)
        lines[name] = [line for line in explained(planned) if "planned with" in line]
    assert lines == {
        "p95": ["net: planned with 2.74 ms per minibatch, the 95th percentile; the median is 792 µs"],
        "interval": [
            "net: planned with 2 ms per minibatch, the upper end of the median's 95 % interval; the median is 1 ms"
        ],
        "steady": [],
    }

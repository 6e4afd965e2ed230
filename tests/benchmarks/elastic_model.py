"""Print what networks take on the model of a GPU, beside what they were measured to take on the real one.

    python tests/benchmarks/elastic_model.py examples/results/kernels-h100.txt [--gpu h100] [--workloads A,D]

Reads what ``tests/benchmarks/elastic_gpu.py`` printed: times of original networks on the GPU alone, of each number of
multiprocessors the first. The model of a part has as large a share of the peak, and all of the bandwidth, as a green
context has. With workloads also the median latency of critical requests and the normal ones answered in a second, by
policy, SIMULATED with a host as the measured one, see ``Host``; policies are told the measured time from the end of a
kernel to that of the next, as they were on the GPU. All four workloads take ten minutes.

Where few critical requests came, as of the ten of a second at 10/s, their median says little: medians of as many random
ones of those on the model are printed as a range (95 % of 1000), and figures that only this range excuses are counted
apart.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.bench import runner
from edgetune.stages.elastic.gpu import Gpu, GpuTask, find_gpu
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import compiled_for, network, workload
from edgetune.stages.elastic.model import GpuTimingModel
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.policies.simple import MultiStream
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stats import median

_GPU = re.compile(r"^.*, (?P<sms>\d+) multiprocessors, CUDA")
_TIME = re.compile(r"^overhead +(?P<name>\w+) +original +(?P<ms>[\d.]+) ms")
_NEXT = re.compile(
    r"^shards +(a launch (?P<call>[\d.]+) us, .*)?each shard more (?P<shard>[\d.]+) us; "
    r".* by the loop (?P<us>[\d.]+) us"
)
_WORKLOAD = re.compile(r"^policies +(?P<name>\w+): .* alone (?P<ms>[\d.]+) ms")
_ASKED = re.compile(r"elastic_gpu.py .*--turns (?P<turns>\d+) --duration (?P<s>[\d.]+)s")
_TURNS = re.compile(r"; (?P<turns>\d+) turns? of (?P<s>[\d.]+) s$")
_POLICY = re.compile(r"^ +(?P<name>\w+) +p50 x(?P<latency>[\d.]+) .* normal (?P<normal>[\d.]+)/s")
_DURATION_S = 0.02
_RUN_S = 1.0
_MEDIANS = 1000
LOOP_CALLS = 4.8
"""Time of a launch by the loop in Python, with the records of its events, in times of the driver's call alone: critical
requests of 31 to 33 small kernels, and requests of such kernels one after another, took 21 to 29 us a kernel on the
H100's host, where the call took 4.5 us, and 6.1 with green contexts."""
DECISION_S, EVENT_S, STREAM_WAIT_S = 12e-6, 2.5e-6, 10e-6
"""Of that host, by the loop: chosen for the figures of workloads; with a launch they make 46 and 55 us from the end of
a kernel to that of the next, where 47 and 55 were measured."""
NEAR = 0.15


def measured_ms(text: str) -> dict[tuple[int, str], float]:
    """Return the first time of each network by multiprocessors, ms."""
    found: dict[tuple[int, str], float] = {}
    sms = 0
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            sms = int(gpu["sms"])
        elif time := _TIME.match(line):
            found.setdefault((sms, time["name"]), float(time["ms"]))
    return found


def modelled_ms(gpu: Gpu, name: str) -> float:
    """Return the median time of a network alone on the model, ms, whose GPU never waits for the host."""
    (task,) = compiled_for(gpu, [GpuTask(name, network(name), 1, arrivals="closed")])
    backend = SimulatedGpu(EventClock(), gpu, [task], model=GpuTimingModel(host_s=0.0))
    loop = ElasticLoop(MultiStream(), backend, [task], gpu=gpu, duration_s=_DURATION_S)
    loop.run()
    begun_ns = {each.launch.request: each.started_ns for each in loop.launches if each.launch.call == 0}
    return median([(each.ended_ns - begun_ns[each.number]) / 1e6 for each in loop.requests if each.outcome == "ok"])


def lines(text: str, whole: Gpu) -> Iterator[str]:
    """Yield a line for each network and number of multiprocessors."""
    for (sms, name), real_ms in measured_ms(text).items():
        share = sms / whole.sm_count
        gpu = replace(whole, sm_count=sms, flop_per_s=share * whole.flop_per_s)
        model_ms = modelled_ms(gpu, name)
        yield f"{sms:>4}  {name:<12} {real_ms:>9.3f} {model_ms:>9.3f} {model_ms / real_ms:>6.2f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """Figures of a workload by a policy.

    Args:
        latency_ms: Median latency of critical requests.
        normal_per_s: Normal requests answered in a second.
        range_ms: Medians of as few requests as were measured, least and most.
    """

    latency_ms: float
    normal_per_s: float
    range_ms: tuple[float, float] = (math.nan, math.nan)

    def near(self, real: Cell) -> int:
        """Return how many of the two are within ``NEAR`` of the measured ones."""
        return is_near(self.latency_ms, real.latency_ms) + is_near(self.normal_per_s, real.normal_per_s)

    def excused(self, real: Cell) -> bool:
        """Return whether only medians of few requests are near the measured latency."""
        least_ms, most_ms = self.range_ms
        nearest_ms = min(max(real.latency_ms, least_ms), most_ms)
        return is_near(nearest_ms, real.latency_ms) and not is_near(self.latency_ms, real.latency_ms)


def is_near(model: float, real: float) -> bool:
    """Return whether a figure of the model is within ``NEAR`` of the measured one."""
    return abs(model / real - 1) <= NEAR


@dataclass(frozen=True, slots=True)
class Host:
    """Times of a host, s; ``None`` where they were not measured.

    Args:
        call_s: Of the driver's call that launches a kernel, or of a shard more, which is that call.
        next_s: From the end of a kernel to that of the next one, by the loop.
    """

    call_s: float
    next_s: float | None = None

    def model(self) -> GpuTimingModel:
        """Return the model of a host."""
        return GpuTimingModel(
            host_s=LOOP_CALLS * self.call_s, decision_s=DECISION_S, event_s=EVENT_S, stream_wait_s=STREAM_WAIT_S
        )

    def seen(self, gpu: Gpu) -> Gpu:
        """Return the GPU as policies saw it."""
        return gpu if self.next_s is None else replace(gpu, launch_s=self.next_s)


@dataclass(frozen=True, slots=True)
class Measured:
    """A workload on so many multiprocessors.

    Args:
        host: The host.
        run_s: Time of all runs of a policy, s.
        cells: By policy.
    """

    host: Host
    run_s: float
    cells: dict[str, Cell] = field(default_factory=dict)


def measured_policies(text: str) -> dict[tuple[int, str], Measured]:
    """Return what was measured by multiprocessors and workload."""
    found: dict[tuple[int, str], Measured] = {}
    sms, host, name, alone_ms, run_s = 0, Host(0.0), "", 0.0, 0.0
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            sms = int(gpu["sms"])
        elif after := _NEXT.match(line):
            host = Host(float(after["call"] or after["shard"]) / 1e6, float(after["us"]) / 1e6)
        elif asked := _ASKED.search(line):
            run_s = int(asked["turns"]) * float(asked["s"])
        elif begun := _WORKLOAD.match(line):
            name, alone_ms = begun["name"], float(begun["ms"])
            if turns := _TURNS.search(line):
                run_s = int(turns["turns"]) * float(turns["s"])
        elif policy := _POLICY.match(line):
            cell = Cell(alone_ms * float(policy["latency"]), float(policy["normal"]))
            found.setdefault((sms, name), Measured(host, run_s)).cells[policy["name"]] = cell
    return found


def modelled_policy(gpu: Gpu, name: str, measured: Measured, policy: str) -> Cell:
    """Return a cell on the model."""
    asked, host = workload(name), measured.host
    seen, model = host.seen(gpu), host.model()
    tasks = compiled_for(gpu, (asked.critical, asked.normal))
    made = make_policy(policy, tasks, seen)

    def opened(tasks: Sequence[GpuTask]) -> AbstractContextManager[SimulatedGpu]:
        return nullcontext(SimulatedGpu(EventClock(), gpu, tasks, model=model))

    run = runner(opened, {policy: made}, seen, duration_s=_RUN_S)
    latencies_s = run(tasks, policy, 0).latencies_s
    critical_ms = [1e3 * each for each in latencies_s[asked.critical.name]]
    requests = max(1, round(len(critical_ms) * measured.run_s / _RUN_S))
    rng = Random(0)
    medians_ms = sorted(median(rng.choices(critical_ms, k=requests)) for _ in range(_MEDIANS))
    range_ms = medians_ms[_MEDIANS // 40], medians_ms[-_MEDIANS // 40]
    return Cell(median(critical_ms), len(latencies_s[asked.normal.name]) / _RUN_S, range_ms)


def policy_lines(text: str, whole: Gpu, workloads: Sequence[str]) -> Iterator[str]:
    """Yield a line for each policy, workload and number of multiprocessors, and how many figures are near."""
    near = excused = figures = 0
    for (sms, name), measured in measured_policies(text).items():
        if name not in workloads:
            continue
        gpu = replace(whole, sm_count=sms, flop_per_s=sms / whole.sm_count * whole.flop_per_s)
        for policy, real in measured.cells.items():
            model = modelled_policy(gpu, name, measured, policy)
            near, excused, figures = near + model.near(real), excused + model.excused(real), figures + 2
            least_ms, most_ms = model.range_ms
            yield (
                f"{sms:>4}  {name:<8} {policy:<16} {real.latency_ms:>8.3f} {model.latency_ms:>8.3f} "
                f"{model.latency_ms / real.latency_ms:>6.2f}  {least_ms:.3f}-{most_ms:.3f}  {real.normal_per_s:>7.0f} "
                f"{model.normal_per_s:>7.0f} {model.normal_per_s / real.normal_per_s:>6.2f}"
            )
    yield f"{near} of {figures} figures are within {100 * NEAR:.0f} % of the measured ones"
    yield f"{excused} more are medians of so few requests that they may be"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--gpu", default="h100")
    parser.add_argument("--workloads", default="")
    asked = parser.parse_args()
    text, whole = asked.file.read_text(), find_gpu(asked.gpu)
    print("multiprocessors, network, measured ms, model ms, ratio")
    for line in lines(text, whole):
        print(line)
    if asked.workloads:
        print("multiprocessors, workload, policy; critical p50, ms: measured, model, ratio, range; normal requests/s")
        for line in policy_lines(text, whole, asked.workloads.split(",")):
            print(line, flush=True)


if __name__ == "__main__":
    main()

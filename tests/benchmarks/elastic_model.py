"""Print what networks take on the model of a GPU, beside what they were measured to take on the real one.

    python tests/benchmarks/elastic_model.py examples/results/kernels-h100.txt [--gpu h100] [--workloads A,D]

Reads what ``tests/benchmarks/elastic_gpu.py`` printed: times of original networks on the GPU alone, of each number of
multiprocessors the first. The model of a part has as large a share of the peak, and all of the bandwidth, as a green
context has. With workloads also the median latency of critical requests and the normal ones answered in a second, by
policy, SIMULATED with a host as the measured one: its loop in Python takes ``HOST_S`` a launch, and the rest of the
measured time from the end of a kernel to the next one is its reaction. Of the native launcher a launch takes what the
driver takes.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.bench import runner, simulated
from edgetune.stages.elastic.gpu import Gpu, find_gpu
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import compiled_for, network
from edgetune.stages.elastic.mdtb.workloads import workload
from edgetune.stages.elastic.model import GpuTimingModel, seen_by_policies
from edgetune.stages.elastic.policies import make_policy
from edgetune.stages.elastic.policies.multistream import Solo
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.work import GpuTask
from edgetune.stats import median

_GPU = re.compile(r"^.*, (?P<sms>\d+) multiprocessors, CUDA")
_TIME = re.compile(r"^overhead +(?P<name>\w+) +original +(?P<ms>[\d.]+) ms")
_NEXT = re.compile(
    r"^shards +a launch (?P<call>[\d.]+) us, .* from one to the next by the loop (?P<us>[\d.]+) us"
    r"(, by the native launcher (?P<native>[\d.]+) us)?"
)
_WORKLOAD = re.compile(r"^policies +(?P<name>\w+): .* alone (?P<ms>[\d.]+) ms")
_POLICY = re.compile(
    r"^ +(?P<name>\w+( \(native\)| \(half\))?) +p50 x(?P<latency>[\d.]+) .* normal (?P<normal>[\d.]+)/s"
)
_DURATION_S = 0.02
_RUN_S = 0.3
HOST_S = 24e-6
"""Of the H100's host a launch, s: 4.5 to 6.1 us of it are the driver's, the others those of the loop in Python, which
was measured to take 13 to 22 us with kernels that do nothing."""
NEAR = 0.15
NATIVE, HALF = " (native)", " (half)"
"""Behind the name of a policy: by the native launcher, and with normal work on half of the multiprocessors."""


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
    """Return the median of what a network takes alone on the model, ms."""
    (task,) = compiled_for(gpu, [GpuTask(name, network(name), 1, arrivals="closed")])
    loop = ElasticLoop(Solo(), SimulatedGpu(EventClock(), gpu, [task]), [task], gpu=gpu, duration_s=_DURATION_S)
    loop.run()
    return median([(each.ended_ns - each.arrived_ns) / 1e6 for each in loop.requests if each.outcome == "ok"])


def lines(text: str, whole: Gpu) -> Iterator[str]:
    """Yield a line for each network and number of multiprocessors."""
    for (sms, name), real_ms in measured_ms(text).items():
        share = sms / whole.sm_count
        gpu = replace(whole, sm_count=sms, flop_per_s=share * whole.flop_per_s)
        model_ms = modelled_ms(gpu, name)
        yield f"{sms:>4}  {name:<12} {real_ms:>9.3f} {model_ms:>9.3f} {model_ms / real_ms:>6.2f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """Figures of a workload by a policy: median latency of critical requests, ms, and normal requests a second."""

    latency_ms: float
    normal_per_s: float

    def near(self, real: Cell) -> int:
        """Return how many of the two are within ``NEAR`` of the measured ones."""
        ratios = self.latency_ms / real.latency_ms, self.normal_per_s / real.normal_per_s
        return sum(abs(ratio - 1) <= NEAR for ratio in ratios)


@dataclass(frozen=True, slots=True)
class Host:
    """Times of a host, s; ``None`` where they were not measured.

    Args:
        call_s: Of the launch of a kernel.
        next_s: From the end of a kernel to that of the next one, by the loop.
        native_s: Likewise by the native launcher.
    """

    call_s: float | None = None
    next_s: float | None = None
    native_s: float | None = None

    def model(self, policy: str, gpu: Gpu) -> GpuTimingModel:
        """Return the model of a host: launching takes the native launcher what the driver takes, and the loop more."""
        native = policy.endswith(NATIVE)
        host_s, next_s = (self.call_s or HOST_S, self.native_s) if native else (HOST_S, self.next_s)
        return GpuTimingModel(host_s=host_s, reaction_s=max(0.0, (next_s or 0.0) - host_s - gpu.launch_s))


def measured_policies(text: str) -> dict[tuple[int, str], tuple[Host, dict[str, Cell]]]:
    """Return, by multiprocessors and workload: the host, and the cells by policy."""
    found: dict[tuple[int, str], tuple[Host, dict[str, Cell]]] = {}
    sms, host, name, alone_ms = 0, Host(), "", 0.0
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            sms = int(gpu["sms"])
        elif after := _NEXT.match(line):
            host = Host(*(None if each is None else float(each) / 1e6 for each in after.group("call", "us", "native")))
        elif begun := _WORKLOAD.match(line):
            name, alone_ms = begun["name"], float(begun["ms"])
        elif policy := _POLICY.match(line):
            cell = Cell(alone_ms * float(policy["latency"]), float(policy["normal"]))
            found.setdefault((sms, name), (host, {}))[1][policy["name"]] = cell
    return found


def modelled_policy(gpu: Gpu, name: str, model: GpuTimingModel, policy: str) -> Cell:
    """Return a cell on the model."""
    asked, seen = workload(name), seen_by_policies(gpu, model)
    sms = gpu.sm_count // 2 if policy.endswith(HALF) else None
    tasks = compiled_for(gpu, (asked.critical, replace(asked.normal, sms=sms)))
    made = make_policy(policy.partition(" (")[0], tasks, seen)
    run = runner(simulated(gpu, model), {policy: made}, seen, duration_s=_RUN_S)
    latencies_s = run(tasks, policy, 0).latencies_s
    return Cell(1e3 * median(latencies_s[asked.critical.name]), len(latencies_s[asked.normal.name]) / _RUN_S)


def policy_lines(text: str, whole: Gpu, workloads: Sequence[str]) -> Iterator[str]:
    """Yield a line for each policy, workload and number of multiprocessors, and how many figures are near."""
    near = figures = 0
    for (sms, name), (host, cells) in measured_policies(text).items():
        if name not in workloads:
            continue
        gpu = replace(whole, sm_count=sms, flop_per_s=sms / whole.sm_count * whole.flop_per_s)
        for policy, real in cells.items():
            model = modelled_policy(gpu, name, host.model(policy, gpu), policy)
            near, figures = near + model.near(real), figures + 2
            yield (
                f"{sms:>4}  {name:<8} {policy:<16} {real.latency_ms:>8.3f} {model.latency_ms:>8.3f} "
                f"{model.latency_ms / real.latency_ms:>6.2f} {real.normal_per_s:>9.0f} {model.normal_per_s:>7.0f} "
                f"{model.normal_per_s / real.normal_per_s:>6.2f}"
            )
    yield f"{near} of {figures} figures are within {100 * NEAR:.0f} % of the measured ones"


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
        print("multiprocessors, workload, policy; critical p50, ms, and normal requests/s: measured, model, ratio")
        for line in policy_lines(text, whole, asked.workloads.split(",")):
            print(line, flush=True)


if __name__ == "__main__":
    main()

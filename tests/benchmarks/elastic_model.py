"""Print what networks take on the model of a GPU, beside what they were measured to take on the real one.

    python tests/benchmarks/elastic_model.py examples/results/kernels-h100.txt [--gpu h100] [--workloads A,D]

Reads what ``tests/benchmarks/elastic_gpu.py`` printed: times of original networks on the GPU alone, of each number of
multiprocessors the first. The model of a part has as large a share of the peak, and all of the bandwidth, as a green
context has. With workloads also critical latency and throughput by policy, SIMULATED: by the model as it is, and with
the host's reaction that was measured, less what the model has of it already.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.bench import bench, runner, simulated
from edgetune.stages.elastic.gpu import Gpu, find_gpu
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import network
from edgetune.stages.elastic.mdtb.workloads import workload
from edgetune.stages.elastic.model import GpuTimingModel, seen_by_policies
from edgetune.stages.elastic.policies import POLICIES, make_policy
from edgetune.stages.elastic.policies.multistream import Solo
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.work import GpuTask
from edgetune.stats import median

_GPU = re.compile(r"^.*, (?P<sms>\d+) multiprocessors, CUDA")
_TIME = re.compile(r"^overhead +(?P<name>\w+) +original +(?P<ms>[\d.]+) ms")
_NEXT = re.compile(r"^shards .* from one to the next by the loop (?P<us>[\d.]+) us")
_WORKLOAD = re.compile(r"^policies +(?P<name>\w+): ")
_POLICY = re.compile(r"^ +(?P<name>\w+) +p50 x(?P<latency>[\d.]+) .* throughput x(?P<throughput>[\d.]+) ")
_DURATION_S = 0.02
_BENCH_S = 0.12


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
    task = GpuTask(name, network(name), 1, arrivals="closed")
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


def measured_policies(text: str) -> dict[tuple[int, str], tuple[float, dict[str, tuple[float, float]]]]:
    """Return, by multiprocessors and workload: from one kernel to the next, s; latency and throughput by policy."""
    found: dict[tuple[int, str], tuple[float, dict[str, tuple[float, float]]]] = {}
    sms, next_s, name = 0, 0.0, ""
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            sms = int(gpu["sms"])
        elif after := _NEXT.match(line):
            next_s = float(after["us"]) / 1e6
        elif begun := _WORKLOAD.match(line):
            name = begun["name"]
        elif policy := _POLICY.match(line):
            ratios = float(policy["latency"]), float(policy["throughput"])
            found.setdefault((sms, name), (next_s, {}))[1][policy["name"]] = ratios
    return found


def modelled_policies(gpu: Gpu, name: str, model: GpuTimingModel) -> dict[str, tuple[float, float]]:
    """Return latency and throughput by policy on the model."""
    asked, seen = workload(name), seen_by_policies(gpu, model)
    tasks = (asked.critical, asked.normal)
    made = {each: make_policy(each, tasks, seen) for each in POLICIES}
    run = runner(simulated(gpu, model), made, seen, duration_s=_BENCH_S)
    found = bench(asked, list(made), run, turns=1).policies
    return {each.policy: (each.p50_x.value, each.throughput_x.value if each.throughput_x else 0.0) for each in found}


def policy_lines(text: str, whole: Gpu, workloads: Sequence[str]) -> Iterator[str]:
    """Yield a line for each policy, workload and number of multiprocessors."""
    plain = GpuTimingModel()
    for (sms, name), (next_s, real) in measured_policies(text).items():
        if name not in workloads:
            continue
        gpu = replace(whole, sm_count=sms, flop_per_s=sms / whole.sm_count * whole.flop_per_s)
        reaction_s = max(0.0, next_s - plain.host_s - gpu.launch_s)
        models = (plain, replace(plain, reaction_s=reaction_s))
        with_none, with_reaction = (modelled_policies(gpu, name, model) for model in models)
        for policy, ratios in real.items():
            cells = "  ".join(
                f"{p50_x:>6.2f} {throughput_x:>6.2f}"
                for p50_x, throughput_x in (ratios, with_none[policy], with_reaction[policy])
            )
            yield f"{sms:>4}  {name}  {policy:<12} {cells}  reaction {1e6 * reaction_s:.0f} us"


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
        print("multiprocessors, workload, policy; p50 x alone and throughput x: measured, model, model with reaction")
    for line in policy_lines(text, whole, asked.workloads.split(",")):
        print(line, flush=True)


if __name__ == "__main__":
    main()

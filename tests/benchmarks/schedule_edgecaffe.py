"""Simulate the study's scenarios with its layer times: python tests/benchmarks/schedule_edgecaffe.py DATA [...]

DATA is a folder with ``layer_bytes.csv`` and ``layer_times.csv`` of EdgeCaffe (github.com/bacox/edgecaffe, BSD-2): what
each layer stores, and what loading and executing the layers of three networks took on a CPU.

Prints the mean and the 95th percentile of the response time of every policy in every scenario and budget, how many
times longer the mean is than with ``reuse``, and what wrong estimates of memory do.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from edgetune.serving.clock import EventClock
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.machine import Machine, Paging
from edgetune.stages.schedule.network import Layer, LayeredNetwork, LayerKind
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.policy import SchedulePolicy, taken_by
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.simulation import SimulatedTaskBackend
from edgetune.stages.schedule.state import Parallelism
from edgetune.stats import percentile
from edgetune.units import NS

MIB = 2**20
SCENARIOS = {
    "small-3": ("AgeNet", "GenderNet", "Salient_Object_Subitizing_google"),
    "mixed-3": ("AgeNet", "TinyYolo", "MemNet"),
    "large-3": ("MemNet", "SceneNet", "EmotionNet"),
    "large-3-objectnet": ("MemNet", "EmotionNet", "ObjectNet"),
    "lifelogging-5": ("FaceNet", "AgeNet", "GenderNet", "EmotionNet", "SceneNet"),
    "all": (
        "AgeNet", "GenderNet", "FaceNet", "Salient_Object_Subitizing", "Salient_Object_Subitizing_google", "TinyYolo",
        "EmotionNet", "MemNet", "SceneNet",
    ),
}  # fmt: skip
ARRIVALS = ("batch", "repeat", "0.8", "1.0", "1.2")
"""All networks once; all of them ten times, at once; one of them at a time, by traffic intensity."""
_ALEXNET = {"conv1": (55, 96), "conv2": (27, 256), "conv3": (13, 384), "conv4": (13, 384), "conv5": (13, 256)}
_VGG_S = {"conv1": (109, 96), "conv2": (33, 256), "conv3": (17, 512), "conv4": (17, 512), "conv5": (17, 512)}
_LEVI = {"conv1": (56, 96), "conv2": (28, 256), "conv3": (14, 384)}
_YOLO = {
    f"conv{i}": (side, channels)
    for i, (side, channels) in enumerate(
        [(416, 16), (208, 32), (104, 64), (52, 128), (26, 256), (13, 512), (13, 1024), (13, 1024), (13, 425)], 1
    )
}
_GOOGLENET = {"conv1": (112, 64), "conv2": (56, 192), "inception_3": (28, 128), "inception_4": (14, 128),
              "inception_5": (7, 256)}  # fmt: skip
_VGG_19 = {f"conv{block}": (side, channels) for block, (side, channels) in enumerate(
    [(224, 64), (112, 128), (56, 256), (28, 512), (14, 512)], 1)}  # fmt: skip
MAPS = {
    "ObjectNet": _VGG_19,
    "AgeNet": _LEVI, "GenderNet": _LEVI, "EmotionNet": _VGG_S, "TinyYolo": _YOLO,
    "Salient_Object_Subitizing_google": _GOOGLENET,
}  # fmt: skip
"""Side and channels of what each convolution puts out; of other networks as in AlexNet."""
_EXECUTE_MACS_S = 6.25e9 / 1.25
"""What convolutions of AgeNet did a second, and a quarter more time for what follows them without weights."""
_FC_MACS_S = 0.7e9
"""What the first fully connected layer of AgeNet did."""
_LOAD_BYTES_S = 136e6
"""All weights of the three measured networks, over the time that loading them took."""


def read_networks(folder: Path) -> dict[str, LayeredNetwork]:
    """Return the study's networks: layers with weights, each with the weightless ones that follow it."""
    with (folder / "layer_times.csv").open() as file:
        times = {(row["network"], int(row["layer_id"])): row for row in csv.DictReader(file)}
    rows = defaultdict(list)
    with (folder / "layer_bytes.csv").open() as file:
        for row in csv.DictReader(file):
            rows[row["network"]].append(row)
    return {name: _network(name, each, times) for name, each in rows.items()}


def _network(
    name: str, rows: Sequence[Mapping[str, str]], times: Mapping[tuple[str, int], Mapping[str, str]]
) -> LayeredNetwork:
    layers: list[Layer] = []
    for row in rows:
        time = times.get((name, int(row["id"])))
        took_s = (float(time["load_us_median"]) / 1e6, float(time["exec_us_median"]) / 1e6) if time else None
        parameters = int(row["number-of-paramters"])
        if parameters > 1000:
            layers.append(
                _layer(name, row["name"], parameters, int(row["partialFileSize"]), took_s=took_s, index=len(layers))
            )
        elif layers and took_s:
            layers[-1] = replace(layers[-1], execute_s=layers[-1].execute_s + took_s[1])
    return LayeredNetwork(name, tuple(layers), 3 * 227 * 227 * 4)


def _layer(
    network: str, name: str, parameters: int, size: int, *, took_s: tuple[float, float] | None, index: int
) -> Layer:
    maps = MAPS.get(network, _ALEXNET)
    side, channels = next((maps[key] for key in maps if name.startswith(key)), (0, 4096))
    kind: LayerKind = "conv" if side else "fc"
    positions = side * side or 1
    macs_s = _EXECUTE_MACS_S if side else _FC_MACS_S
    load_s, execute_s = took_s or (size / _LOAD_BYTES_S, parameters * positions / macs_s)
    scratch = parameters // channels * positions * 4 if side else 0
    after = (index - 1,) if index else ()
    return Layer(name, kind, size, positions * channels * 4, scratch, load_s, execute_s, after)


def requests_of(
    names: Sequence[str], networks: Mapping[str, LayeredNetwork], arrivals: str, count: int
) -> list[Request]:
    """Return what comes: all at once, or ``count`` images, each for one of the networks at random."""
    if arrivals in ("batch", "repeat"):
        names = list(names) * (1 if arrivals == "batch" else 10)
        return [Request(number, name, 0) for number, name in enumerate(names)]
    rng = random.Random(0)
    gap_s = fmean(networks[name].service_s for name in names) / float(arrivals)
    at_s, requests = 0.0, []
    for number in range(count):
        requests.append(Request(number, rng.choice(list(names)), round(at_s * NS)))
        at_s += max(rng.normalvariate(gap_s, gap_s / 4), 0.0)
    return requests


@dataclass(frozen=True)
class Result:
    """Responses of one run, s, and the most that was held."""

    mean_s: float
    p95_s: float
    peak_bytes: int
    loads: int


def simulate(
    policy: SchedulePolicy,
    networks: Mapping[str, LayeredNetwork],
    requests: Sequence[Request],
    budget_bytes: int,
    *,
    estimated: float = 1.0,
) -> Result:
    """Return how a run goes whose memory was estimated at so many times what it is."""
    true = taken_by(policy, networks)
    believed = {name: _scaled(network, estimated) for name, network in true.items()}
    machine = Machine(cores=2, streams=1, memory_bytes=budget_bytes, paging=Paging())
    backend = SimulatedTaskBackend(EventClock(), true, budget_bytes=budget_bytes, machine=machine)
    loop = ScheduleLoop(policy, backend, believed, requests, parallelism=Parallelism(2))
    loop.run()
    responses = [record.response_ns / NS for record in loop.requests if record.outcome == "ok"]
    assert len(responses) == len(requests)
    loads = sum(task.kind == "load" for task in loop.tasks)
    return Result(fmean(responses), percentile(responses, 95.0), backend.memory.peak_bytes, loads)


def _scaled(network: LayeredNetwork, factor: float) -> LayeredNetwork:
    layers = tuple(
        replace(
            layer,
            weight_bytes=round(layer.weight_bytes * factor),
            output_bytes=round(layer.output_bytes * factor),
            scratch_bytes=round(layer.scratch_bytes * factor),
        )
        for layer in network.layers
    )
    return replace(network, layers=layers, input_bytes=round(network.input_bytes * factor))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument(
        "--policies", default=",".join(["bulk", "linear", "deepeye", "deepeye:greedy", "masa", "masa:mapped", "reuse"])
    )
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--arrivals", default=",".join(ARRIVALS))
    parser.add_argument("--budgets-mib", default="512,1024,2048")
    parser.add_argument("--images", type=int, default=150)
    asked = parser.parse_args()
    networks, policies = read_networks(asked.data), asked.policies.split(",")
    print(f"{'scenario':14} {'arrivals':8} {'MiB':>5}  " + "  ".join(f"{name:>18}" for name in policies))
    for scenario in asked.scenarios.split(","):
        for arrivals in asked.arrivals.split(","):
            requests = requests_of(SCENARIOS[scenario], networks, arrivals, asked.images)
            for budget in map(int, asked.budgets_mib.split(",")):
                results = {n: simulate(make_policy(n), networks, requests, budget * MIB) for n in policies}
                least = results.get("reuse", results[policies[-1]]).mean_s
                cells = [f"{r.mean_s:7.2f}{r.p95_s:7.2f}{r.mean_s / least:4.1f}" for r in results.values()]
                print(f"{scenario:14} {arrivals:8} {budget:5}  " + "  ".join(cells), flush=True)
    print("\nmemory estimated at so many times what it is, masa and reuse, mean response / that at 1.0")
    requests = requests_of(SCENARIOS["large-3"], networks, "repeat", asked.images)
    for name in ("masa", "reuse"):
        means = [simulate(make_policy(name), networks, requests, 512 * MIB, estimated=f).mean_s for f in ESTIMATED]
        print(f"{name:6} " + "  ".join(f"x{f}: {m / means[2]:.3f}" for f, m in zip(ESTIMATED, means, strict=True)))


ESTIMATED = (0.5, 0.75, 1.0, 1.25, 1.5)


if __name__ == "__main__":
    main()

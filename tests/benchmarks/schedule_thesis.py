"""The figures of the EdgeCaffe thesis beside ours: what the text says of each, and what the same experiment gives here.

    python tests/benchmarks/schedule_thesis.py DATA [--prepared FOLDER] [--only 6.7,7.16] [--repeats 3] [--limit 5]

DATA is a folder with ``layer_bytes.csv`` and ``layer_times.csv`` of EdgeCaffe (github.com/bacox/edgecaffe, BSD-2): what
each layer stores, and what loading and executing the layers of three networks took on a CPU. In a folder without them
the zoo's networks of these names are prepared and measured, which takes some minutes. FOLDER, for table 7.2, is made by
``edgetune schedule prepare``. B. Cox, *Multi-model inference on the edge*, TU Delft 2020: most of its figures
are pictures, so that "theirs" is what its text and tables say. Solver times, loads and the idle footprint are measured
here; everything else is SIMULATED with the thesis's layers, and with what Caffe held of each (its table 6.1), on two
cores and one storage. The solver's cases are chains of layers of 10 to 100 bytes that load and execute in 1 to 20 ms.
"""

import argparse
import csv
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from scipy.stats import kendalltau

from edgetune.artifacts.io import read
from edgetune.artifacts.layer_costs import LayerCosts
from edgetune.stages.schedule.best_schedule import optimum
from edgetune.stages.schedule.costs import networks_of
from edgetune.stages.schedule.executor import environment_of
from edgetune.stages.schedule.live_run import LiveOptions, LiveRun
from edgetune.stages.schedule.network import Layer, LayeredNetwork, LayerKind, least_budget_bytes
from edgetune.stages.schedule.plan import LayerSchedule, SchedulingProblem
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.policies.optimum import Optimum
from edgetune.stages.schedule.policies.policy import SchedulePolicy
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.stages.schedule.simulation import SimulationCase, simulate
from edgetune.stages.schedule.tasks import Machine, Paging, RequestRecord
from edgetune.stages.schedule.weights import MappedWeights, drop_cached
from edgetune.stats import median
from edgetune.units import NS
from edgetune.workloads.prepared import open_prepared

MIB = 1 << 20
CAFFE_MB = {"AgeNet": 183, "MemNet": 880, "SceneNet": 892}
"""What Caffe held of each network at the most, MB (table 6.1)."""
TABLE_7_2 = {"tinyyolo": (233.883, 229.015), "objectnet": (3223.22, 3415.09), "googlenet": (94.2531, 93.8436)}
"""Loading from one file, and from a file for each layer, ms."""

_ALEXNET = {"conv1": (55, 96), "conv2": (27, 256), "conv3": (13, 384), "conv4": (13, 384), "conv5": (13, 256)}
_MAPS = {
    "AgeNet": {"conv1": (56, 96), "conv2": (28, 256), "conv3": (14, 384)}, "MemNet": _ALEXNET, "SceneNet": _ALEXNET,
}  # fmt: skip
"""Side and channels of what each convolution puts out."""
_EXECUTE_MACS_S = 6.25e9 / 1.25
"""What convolutions of AgeNet did a second, and a quarter more time for what follows them without weights."""
_FC_MACS_S = 0.7e9
"""What the first fully connected layer of AgeNet did."""
_LOAD_BYTES_S = 136e6
"""All weights of the three measured networks, over the time that loading them took."""

Lines = Iterator[tuple[str, str, str]]
"""What, theirs, ours."""


def read_networks(folder: Path) -> dict[str, LayeredNetwork]:
    """Return the study's networks: layers with weights, each with the weightless ones that follow it."""
    if not (folder / "layer_times.csv").exists():
        return measured_networks(folder)
    with (folder / "layer_times.csv").open() as file:
        times = {(row["network"], int(row["layer_id"])): row for row in csv.DictReader(file)}
    rows = defaultdict(list)
    with (folder / "layer_bytes.csv").open() as file:
        for row in csv.DictReader(file):
            rows[row["network"]].append(row)
    return {name: _network(name, rows[name], times) for name in CAFFE_MB}


def measured_networks(folder: Path) -> dict[str, LayeredNetwork]:
    """Return the zoo's networks of the study's names, their layers measured on this machine unless FOLDER has them."""
    costs = folder / "costs.parquet"
    if not costs.exists():
        folder.mkdir(parents=True, exist_ok=True)
        zoo = [f"zoo:{name.lower()}" for name in CAFFE_MB]
        prepared = str(folder / "prepared")
        for words in (("prepare", *zoo, "-o", prepared), ("profile", prepared, "--cold", "-o", str(costs))):
            subprocess.run([sys.executable, "-m", "edgetune", "schedule", *words, "-q"], check=True)
    found = networks_of(read(LayerCosts, str(costs)))
    return {name: replace(found[name.lower()], name=name) for name in CAFFE_MB}


def _network(
    name: str, rows: Sequence[Mapping[str, str]], times: Mapping[tuple[str, int], Mapping[str, str]]
) -> LayeredNetwork:
    layers: list[Layer] = []
    for row in rows:
        time = times.get((name, int(row["id"])))
        took_s = (float(time["load_us_median"]) / 1e6, float(time["exec_us_median"]) / 1e6) if time else None
        if int(row["number-of-paramters"]) > 1000:
            layers.append(_layer(name, row, took_s, len(layers)))
        elif layers and took_s:
            layers[-1] = replace(layers[-1], execute_s=layers[-1].execute_s + took_s[1])
    return LayeredNetwork(name, tuple(layers), 3 * 227 * 227 * 4)


def _layer(network: str, row: Mapping[str, str], took_s: tuple[float, float] | None, index: int) -> Layer:
    parameters, size = int(row["number-of-paramters"]), int(row["partialFileSize"])
    maps = _MAPS[network]
    side, channels = next((maps[key] for key in maps if row["name"].startswith(key)), (0, 4096))
    kind: LayerKind = "conv" if side else "fc"
    positions = side * side or 1
    macs_s = _EXECUTE_MACS_S if side else _FC_MACS_S
    load_s, execute_s = took_s or (size / _LOAD_BYTES_S, parameters * positions / macs_s)
    scratch = parameters // channels * positions * 4 if side else 0
    after = (index - 1,) if index else ()
    return Layer(row["name"], kind, size, positions * channels * 4, scratch, load_s, execute_s, after)


def chain(name: str, layers: int, rng: random.Random, *, slower: float = 1.0) -> LayeredNetwork:
    """Return a random chain; its durations are so many times those of the same seed."""
    made = []
    for index in range(layers):
        sizes = rng.randint(10, 100), rng.randint(1, 15), rng.randint(0, 10)
        times_s = slower * rng.randint(1, 20) / 1e3, slower * rng.randint(1, 20) / 1e3
        made.append(Layer(f"{name}{index}", "conv", *sizes, *times_s, (index - 1,) if index else ()))
    return LayeredNetwork(name, tuple(made))


def case_of(
    layers: Sequence[int], *, seed: int, workers: int = 2, memory: float = 1.0, slower: float = 1.0,
    streams: int | None = None,
) -> SchedulingProblem:  # fmt: skip
    """Return a case of chains that are asked for once; memory of 0 is the least that works, 1 all there is to hold."""
    rng = random.Random(seed)
    networks = {name: chain(name, count, rng, slower=slower) for name, count in zip("abcd", layers, strict=False)}
    least = max(map(least_budget_bytes, networks.values()))
    most = sum(
        each.weight_bytes + sum(one.output_bytes + one.scratch_bytes for one in each.layers)
        for each in networks.values()
    )
    requests = [Request(number, name, 0) for number, name in enumerate(networks)]
    return SchedulingProblem(networks, requests, round(least + memory * (most - least)), workers, streams)


def planned(case: SchedulingProblem, limit_s: float) -> LayerSchedule:
    """Return the best plan that is found in a time."""
    plan = optimum(case, "makespan", limit_s=limit_s)
    assert plan is not None, "no plan in this time: raise --limit"
    return plan


class Thesis:
    """The experiments.

    Args:
        asked: The command line.
    """

    def __init__(self, asked: argparse.Namespace) -> None:
        self._asked = asked
        self._study = read_networks(asked.data)
        self.sections: dict[str, Callable[[], Lines]] = {
            "4.9": self.preloading,
            "4.11": self.layers, "4.12": self.durations, "4.13": self.workers, "4.14": self.memory,
            "4.15": self.similarity, "4.16": self.networks, "6.3": self.little_memory, "6.4": self.coordination,
            "6.7": self.masa_beside_optimum, "7.2": self.files, "7.15": self.triple_agenet,
            "7.16": self.wrong_estimates, "7.5.2": self.idle, "8": self.saved,
        }  # fmt: skip

    def _solved(self, **options: object) -> str:
        """Return the solver's times for the cases of some seeds, and how many were proved."""
        found = [
            planned(case_of(seed=seed, **options), self._asked.limit)  # type: ignore[arg-type]
            for seed in range(self._asked.repeats)
        ]
        proved = sum(plan.proved for plan in found)
        return f"{median([plan.took_s for plan in found]):7.2f} s, {proved} of {len(found)} proved"

    def preloading(self) -> Lines:
        """Figure 4.9: time of whole networks, loaded and then executed, over that of the optimum with all memory."""
        for name, network in self._study.items():
            ratios = []
            for workers in (1, 2, 3):
                case = SchedulingProblem({name: network}, [Request(0, name, 0)], 1 << 40, workers)
                best = planned(case, self._asked.limit)
                ratios.append(f"x{network.service_s * NS / best.value_ns:.2f}")
            yield f"{name}, 1, 2, 3 workers", "differs by network", ", ".join(ratios)

    def layers(self) -> Lines:
        """Figure 4.11: time to solve, by layers of one network."""
        theirs = {8: "little below 17 layers", 20: "rises dramatically above"}
        for count in (4, 8, 12, 16, 20):
            yield f"one network, {count} layers", theirs.get(count, ""), self._solved(layers=[count])

    def durations(self) -> Lines:
        """Figure 4.12: time to solve, by how long tasks are."""
        for slower in (1, 2, 4, 8):
            theirs = "linear in the duration" if slower == 8 else ""
            yield f"8 layers, tasks x{slower}", theirs, self._solved(layers=[8], slower=float(slower))

    def workers(self) -> Lines:
        """Figure 4.13: time to solve, by workers."""
        for workers in range(1, 7):
            theirs = "exponential in workers" if workers == 6 else ""
            yield f"4 + 4 layers, {workers} workers", theirs, self._solved(layers=[4, 4], workers=workers)

    def memory(self) -> Lines:
        """Figure 4.14: time to solve, by memory."""
        for memory in (1.0, 0.5, 0.25, 0.1, 0.0):
            theirs = "rises as memory falls" if memory == 0.0 else ""
            yield f"4 + 4 layers, {memory:.0%} of the memory", theirs, self._solved(layers=[4, 4], memory=memory)

    def networks(self) -> Lines:
        """Figure 4.16: time to solve, by networks with eight layers together."""
        theirs = {3: "three networks need far more than two"}
        for layers in ([8], [4, 4], [3, 3, 2], [2, 2, 2, 2]):
            yield f"{len(layers)} networks, 8 layers", theirs.get(len(layers), ""), self._solved(layers=layers)

    def similarity(self) -> Lines:
        """Figure 4.15: Kendall's tau-b of optimal orders when durations change, and what keeping the order costs."""
        for share in (0.0, 0.01, 0.05, 0.1, 0.2, 0.3):
            taus, costs = [], []
            for seed in range(self._asked.repeats):
                case = case_of([4, 4], seed=seed, memory=0.25)
                changed = replace(case, networks=_changed(case.networks, share, random.Random(seed)))
                turned = [Request(number, name, 0) for number, name in enumerate(reversed(case.networks))]
                other = changed if share else replace(case, requests=turned)
                plans = [planned(each, self._asked.limit) for each in (case, other)]
                taus.append(_tau(*plans))
                costs.append(self._span_ns(Optimum(plan=plans[0]), changed) / plans[1].value_ns)
            theirs = "deviates significantly" if share == 0.01 else ""
            kept = f"the order kept takes x{fmean(costs):.3f} of the new optimum"
            what = f"durations {share:.0%} off" if share else "requests in another order"
            yield what, theirs, f"tau {fmean(taus):.2f}; {kept}"

    def _span_ns(self, policy: SchedulePolicy, case: SchedulingProblem) -> int:
        machine = Machine(cores=case.cores or case.workers, streams=case.streams or case.workers)
        records = simulate(
            policy, SimulationCase(case.networks, case.requests, case.budget_bytes, case.workers, machine)
        ).records
        return max(record.end_ns for record in records if isinstance(record, RequestRecord))

    def masa_beside_optimum(self) -> Lines:
        """Figure 6.7: schedule length of MASA over the optimum, two networks of four layers, by workers."""
        theirs = {4: "1.22, the worst", 6: "1.00", 7: "1.00"}
        for workers in range(1, 8):
            ratios: dict[str, list[float]] = {"masa": [], "masa one storage": [], "masa:mapped one storage": []}
            for seed in range(2 * self._asked.repeats):
                for words, mine in ratios.items():
                    name, _, storage = words.partition(" ")
                    case = case_of([4, 4], seed=seed, workers=workers, streams=1 if storage else None)
                    best = planned(case, self._asked.limit).value_ns
                    mine.append(self._span_ns(make_policy(name), case) / best)
            told = ", ".join(f"{words} {fmean(mine):.3f}" for words, mine in ratios.items())
            yield f"{workers} workers", theirs.get(workers, ""), told

    def _caffe(self, name: str) -> LayeredNetwork:
        """Return a network of the study whose weights take what Caffe held, in the same proportions."""
        network = self._study[name]
        factor = CAFFE_MB[name] * 1e6 / network.weight_bytes
        layers = tuple(replace(each, weight_bytes=round(each.weight_bytes * factor)) for each in network.layers)
        return replace(network, layers=layers)

    def _mean_s(
        self, policy: SchedulePolicy, networks: Mapping[str, LayeredNetwork], requests: Sequence[Request],
        memory_mib: int, *, workers: int = 2, cores: int = 2, estimated: float = 1.0,
    ) -> float:  # fmt: skip
        """Return the mean response under so much memory, with sizes estimated at so many times what they are."""
        machine = Machine(cores=cores, memory_bytes=memory_mib * MIB, paging=Paging())
        believed = {name: _sized(network, estimated) for name, network in networks.items()}
        case = SimulationCase(networks, requests, memory_mib * MIB, workers, machine, believed)
        records = simulate(policy, case).records
        return fmean(each.response_ns / NS for each in records if isinstance(each, RequestRecord))

    def little_memory(self) -> Lines:
        """Figure 6.3: SceneNet loaded as a whole, by memory, relative to 1 GB."""
        networks = {"SceneNet": self._caffe("SceneNet")}
        taken = {
            mib: self._mean_s(make_policy("bulk"), networks, [Request(0, "SceneNet", 0)], mib)
            for mib in (2048, 1024, 512, 256)
        }
        theirs = {2048: "x1", 1024: "x1", 512: "fully connected layers x2.5", 256: "x7.2"}
        for mib, taken_s in taken.items():
            yield f"SceneNet, {mib} MiB", theirs[mib], f"x{taken_s / taken[1024]:.2f} ({taken_s:.2f} s)"

    def coordination(self) -> Lines:
        """Figure 6.4: two instances of MemNet at once over one after another, by memory."""
        network = self._caffe("MemNet")
        networks = {name: replace(network, name=name) for name in ("one", "two")}
        requests = [Request(0, "one", 0), Request(1, "two", 0)]
        theirs = {2048: "a little above 1", 1024: "7.8", 512: "3.9"}
        for mib in (2048, 1024, 512):
            at_once = self._mean_s(_AtOnce(), networks, requests, mib)
            in_turn = self._mean_s(make_policy("bulk"), networks, requests, mib) / 1.5  # of an instance, not its wait
            yield f"two of MemNet, {mib} MiB", theirs[mib], f"{at_once / in_turn:.2f} ({in_turn:.2f} s in turn)"

    def files(self) -> Lines:
        """Table 7.2: loading weights from one file, and from a file for each layer; measured."""
        if self._asked.prepared is None:
            yield "one file, a file each", "", "not run: --prepared FOLDER"
            return
        for name in sorted(path.name for path in self._asked.prepared.iterdir()):
            prepared = open_prepared(self._asked.prepared / name)
            whole = [prepared.folder / each for each in prepared.files if each == "whole.weights"]
            split = {prepared.folder / weight.file: None for layer in prepared.layers for weight in layer.weights}
            before = TABLE_7_2.get(name)
            theirs = "" if before is None else f"{before[0]:.0f}, {before[1]:.0f} ms: x{before[1] / before[0]:.2f}"
            ours = []
            for cold in (False, True):
                one, many = _loading_ms([whole, list(split)], cold=cold)
                shares = f"x{many[0] / one[0]:.2f}, in the kernel {one[1]:.0%}, {many[1]:.0%}"
                ours.append(f"{'stored' if cold else 'cached'} {one[0]:.1f}, {many[0]:.1f} ms: {shares}")
            yield f"{name}, one file and {len(split)}", theirs, "; ".join(ours)

    def triple_agenet(self) -> Lines:
        """Figure 7.15: three of AgeNet for each image, by workers: MASA, and the others relative to it."""
        network = self._caffe("AgeNet")
        networks = {f"age{number}": replace(network, name=f"age{number}") for number in range(3)}
        theirs = {(512, 6): "no gain from workers, or a loss", (2048, 4): "workers beyond 2 help"}
        for mib in (512, 1024, 2048):
            for workers in (2, 4, 6):
                requests = _images(networks, self._asked.images, intensity=0.8)
                found = {
                    name: self._mean_s(make_policy(name), networks, requests, mib, workers=workers, cores=4)
                    for name in ("masa", "masa:mapped", "bulk", "deepeye", "deepeye:greedy", "reuse")
                }
                told = ", ".join(
                    f"{name} x{each / found['masa']:.2f}" for name, each in found.items() if name != "masa"
                )
                yield (
                    f"{mib} MiB, {workers} workers",
                    theirs.get((mib, workers), ""),
                    f"masa {found['masa']:.3f} s, {told}",
                )

    def wrong_estimates(self) -> Lines:
        """Figure 7.16: memory of six of AgeNet estimated at so many times what it is; mean response relative to 1."""
        network = self._caffe("AgeNet")
        networks = {f"age{number}": replace(network, name=f"age{number}") for number in range(6)}
        requests = [Request(number, name, 0) for number, name in enumerate(list(networks) * 10)]
        theirs = {0.5: "0.8 to 1.4 s: x1.75", 1.5: "x1.115"}
        for name in ("masa", "reuse"):
            means = {
                factor: self._mean_s(make_policy(name), networks, requests, self._asked.little_mib, estimated=factor)
                for factor in (0.5, 0.75, 1.0, 1.25, 1.5)
            }
            for factor, mean_s in means.items():
                said = theirs.get(factor, "") if name == "masa" else ""
                yield f"{name}, memory x{factor}", said, f"x{mean_s / means[1.0]:.3f} ({mean_s:.2f} s)"

    def idle(self) -> Lines:
        """Section 7.5.2: what an idle process takes, no page of a file, beside Python with ONNX Runtime; measured."""
        ours = median([_idle_bytes() - _onnx_runtime_bytes() for _ in range(self._asked.repeats)]) / MIB
        yield "no networks", "4.8 MB, valgrind's heap of a C++ process", f"{ours:.1f} MiB"

    def saved(self) -> Lines:
        """Conclusion: weights that partial execution need not hold, the largest layer alone, of all networks."""
        layers = {name: [layer.weight_bytes for layer in network.layers] for name, network in self._study.items()}
        if (stored := self._asked.data / "layer_bytes.csv").exists():
            layers = defaultdict(list)
            with stored.open() as file:
                for row in csv.DictReader(file):
                    layers[row["network"]].append(int(row["partialFileSize"]))
        shares = [1 - max(sizes) / sum(sizes) for sizes in layers.values()]
        yield "most, mean", "up to 88 %, 35 %", f"{max(shares):.1%}, {fmean(shares):.1%}"


def _idle_bytes() -> int:
    """Return what the process that runs networks takes when it is ready, with none, that is no page of a file."""
    with tempfile.TemporaryDirectory() as folder:
        options = LiveOptions("reuse", 1 << 30, enforce=False)
        return LiveRun([], [], options, RunInputs(Path(folder))).rehearse().base_anonymous_bytes or 0


def _onnx_runtime_bytes() -> int:
    """Return what Python takes that has imported numpy and ONNX Runtime, that is no page of a file."""
    program = "import onnxruntime; print(next(l.split()[1] for l in open('/proc/self/smaps_rollup') if 'Anon' in l))"
    command, environment = [sys.executable, "-c", program], dict(environment_of("default"))
    return 1024 * int(subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout)


class _AtOnce(SchedulePolicy):
    """Whole networks, as soon as a worker is idle, whatever memory is free: nobody coordinates."""

    name, whole, overcommits = "at once", True, True

    def choose(self, view):  # type: ignore[no-untyped-def]
        """Return an execution that is ready, else a load."""
        unwanted = view.unwanted()
        if unwanted is not None or not view.idle_workers:
            return unwanted
        return view.executions.first or view.loads.first


def _images(networks: Mapping[str, LayeredNetwork], count: int, *, intensity: float) -> list[Request]:
    """Return images at normal gaps, each for all networks."""
    rng, at_s, requests = random.Random(0), 0.0, list[Request]()
    gap_s = sum(network.service_s for network in networks.values()) / intensity
    for _ in range(count):
        requests += [Request(len(requests) + place, name, round(at_s * NS)) for place, name in enumerate(networks)]
        at_s += max(rng.normalvariate(gap_s, gap_s / 4), 0.0)
    return requests


def _sized(network: LayeredNetwork, factor: float) -> LayeredNetwork:
    """Return a network whose bytes are so many times as many."""
    sizes = ("weight_bytes", "output_bytes", "scratch_bytes")
    layers = tuple(
        replace(layer, **{size: round(getattr(layer, size) * factor) for size in sizes}) for layer in network.layers
    )
    return replace(network, layers=layers, input_bytes=round(network.input_bytes * factor))


def _changed(networks: Mapping[str, LayeredNetwork], share: float, rng: random.Random) -> dict[str, LayeredNetwork]:
    """Return networks whose durations are so much shorter or longer, each by a draw of its own."""

    def factor() -> float:
        return 1 + rng.choice([-1, 1]) * rng.uniform(0, share)

    return {
        name: replace(
            network,
            layers=tuple(
                replace(each, load_s=each.load_s * factor(), execute_s=each.execute_s * factor())
                for each in network.layers
            ),
        )
        for name, network in networks.items()
    }


def _tau(one: LayerSchedule, other: LayerSchedule) -> float:
    """Return Kendall's tau-b of when the same tasks start."""
    starts = [{(step.kind, step.network, step.layer): step.start_ns for step in plan.steps} for plan in (one, other)]
    common = sorted(starts[0].keys() & starts[1].keys())
    return float(kendalltau([starts[0][key] for key in common], [starts[1][key] for key in common]).statistic)


def _loading_ms(sets: Sequence[Sequence[Path]], *, cold: bool, repeats: int = 15) -> list[tuple[float, float]]:
    """Return for each set of files the median time to load them one after another, ms, and the kernel's share of it.

    Args:
        sets: Take turns.
        cold: Whether files leave the page cache before.
        repeats: How often.
    """
    took: list[list[float]] = [[] for _ in sets]
    kernel: list[list[float]] = [[] for _ in sets]
    for _ in range(repeats + 1):
        for place, paths in enumerate(sets):
            for path in paths if cold else ():
                drop_cached(path)
            begun_s, before_s = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_stime
            for path in paths:
                MappedWeights(path, path.stat().st_size).release(drop_cache=False)
            took[place].append(1e3 * (time.perf_counter() - begun_s))
            kernel[place].append(1e3 * (resource.getrusage(resource.RUSAGE_SELF).ru_stime - before_s))
    return [(median(each[1:]), fmean(of[1:]) / fmean(each[1:])) for each, of in zip(took, kernel, strict=True)]


def main() -> None:
    """Print each figure: what was varied, theirs, ours."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--prepared", type=Path)
    parser.add_argument("--only", default=None, metavar="LIST", help="figures, e.g. 4.11,7.16")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--limit", type=float, default=5.0, metavar="SECONDS", help="of each search of the solver")
    parser.add_argument("--little-mib", type=int, default=320, metavar="N", help="memory of figure 7.16")
    parser.add_argument("--images", type=int, default=50, metavar="N")
    asked = parser.parse_args()
    thesis = Thesis(asked)
    for number in thesis.sections if asked.only is None else asked.only.split(","):
        section = thesis.sections[number]
        print(f"\n{(section.__doc__ or '').strip()}\n{'':34}{'theirs':40}ours")
        for what, theirs, ours in section():
            print(f"{what:34}{theirs:40}{ours}", flush=True)


if __name__ == "__main__":
    main()

"""What it costs to run a network through prepared layers, beside running it whole: time and memory.

    python tests/benchmarks/schedule_mechanism.py PREPARED ...      folders of edgetune schedule prepare

Load is of all weights, from the page cache. Steady inference is timed in one process, the mechanisms in turn, one
thread each, every time the second of two: processor time, which other programs on the machine change little, and time
by the clock. `through the loop` is the policy `reuse` with everything resident, its decisions and threads included.
Memory is anonymous memory above an idle process with ONNX Runtime, the most that there was, read from outside every
millisecond, in a process for each mechanism that loads, answers some requests and ends.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

from edgetune.serving.supervision import Supervision
from edgetune.stages.schedule.costs import network_of
from edgetune.stages.schedule.executor import _EXACT_HEAP, PreparedLayers, Runnable, WholeNetwork
from edgetune.stages.schedule.live import LiveTaskBackend
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.policies import make_policy
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.state import Parallelism
from edgetune.stages.schedule.tasks import RequestRecord
from edgetune.workloads.prepared import Prepared, open_prepared

ROUNDS = 25
MECHANISMS = ("default", "external", "layers")
MIB = 1 << 20


class Network:
    """A network with all of its weights loaded."""

    def __init__(self, prepared: Prepared, mechanism: Any) -> None:
        begun_s = time.perf_counter()
        self.runnable: Runnable
        if mechanism == "layers":
            self.runnable = PreparedLayers(prepared, {}, drop_cache=False)
        else:
            self.runnable = WholeNetwork(prepared, mechanism, threads=1, drop_cache=False)
        made_s = time.perf_counter()
        self.loaded = [self.runnable.load(layer) for layer in range(len(self.runnable.reads))]
        self.sessions_s, self.load_s = made_s - begun_s, time.perf_counter() - made_s
        generator = np.random.default_rng(0)
        self.sample = {t.name: generator.random(t.shape, dtype=np.float32) for t in prepared.inputs}

    def answer(self) -> Any:
        """Execute all layers, one after another."""
        values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in self.sample.items()}
        last = {name: layer for layer, reads in enumerate(self.runnable.reads) for name in reads}
        for layer, reads in enumerate(self.runnable.reads):
            values.update(self.runnable.execute(layer, self.loaded[layer], {name: values[name] for name in reads}))
            for name in reads:
                if last[name] == layer:
                    del values[name]
        return [values[name].numpy() for name in self.runnable.outputs]

    def sample_of(self, *_: object) -> Any:
        return self.sample


class _Discarded:
    def __init__(self, network: Network) -> None:
        self.sample, self.take = network.sample_of, lambda *_: None


def through_the_loop(prepared: Prepared, network: Network) -> tuple[float, float]:
    """Return processor time and time of a request that found everything resident and caches warm, s."""
    policy = make_policy("reuse")
    seen = network_of(prepared)
    backend = LiveTaskBackend(
        {seen.name: network.runnable}, workers=1, answers=_Discarded(network), budget=lambda _: 1 << 40
    )  # fmt: skip
    ended: list[tuple[float, float]] = []

    def note(record: Any) -> None:
        if isinstance(record, RequestRecord):
            assert record.failure is None, record.failure
            ended.append((time.process_time(), time.perf_counter()))

    with closing(backend):
        asked = [Request(number, seen.name, 0, after=(number - 1,) if number else ()) for number in range(3)]
        supervision = Supervision(on_record=note)
        ScheduleLoop(
            policy, backend, {seen.name: seen}, asked, parallelism=Parallelism(1), supervision=supervision
        ).run()
    return ended[2][0] - ended[1][0], ended[2][1] - ended[1][1]


def timed(run: Callable[[], Any]) -> tuple[float, float]:
    """Return processor time and time, s."""
    run()
    begun_s = time.process_time(), time.perf_counter()
    run()
    return time.process_time() - begun_s[0], time.perf_counter() - begun_s[1]


def steady(prepared: Prepared) -> None:
    """Print load and inference times."""
    networks = {mechanism: Network(prepared, mechanism) for mechanism in MECHANISMS}
    reference = networks["default"].answer()
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in (*MECHANISMS, "through the loop")}
    for network in networks.values():
        network.answer()
    for _ in range(ROUNDS):
        for name, network in networks.items():
            times[name].append(timed(network.answer))
        times["through the loop"].append(through_the_loop(prepared, networks["layers"]))
    print(f"\n{prepared.network}: {prepared.weight_bytes / MIB:.0f} MiB of weights in {len(prepared.layers)} layers")
    print(f"{'mechanism':18}{'load ms':>9}{'cpu ms':>8}{'of default':>12}{'ms':>8}{'of default':>12}{'differs by':>12}")
    cpu, clock = ({name: statistics.median(each[k] for each in times[name]) for name in times} for k in (0, 1))
    for name in times:
        load = f"{networks[name].load_s * 1e3:9.1f}" if name in networks else " " * 9
        answers = networks.get(name, networks["layers"]).answer()
        differs = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(answers, reference, strict=True))
        by_cpu = f"{cpu[name] * 1e3:8.2f}{cpu[name] / cpu['default']:12.2f}"
        by_clock = f"{clock[name] * 1e3:8.2f}{clock[name] / clock['default']:12.2f}"
        print(f"{name:18}{load}{by_cpu}{by_clock}{differs:12.1e}")


def anonymous_bytes(folder: str, mechanism: str) -> int:
    """Return the most anonymous memory of a process beyond its idle state."""
    environment = dict(os.environ)
    if mechanism != "layers":  # whole networks run with the C library's own settings
        environment = {name: value for name, value in environment.items() if name not in _EXACT_HEAP}
    command = [sys.executable, __file__, "--child", mechanism, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        idle, most = _anonymous(child.pid), 0
        child.stdin.write("go\n")
        child.stdin.flush()
        while not select.select([child.stdout], [], [], 0.001)[0]:
            most = max(most, _anonymous(child.pid))
        child.communicate("end\n")
    return most - idle


def _anonymous(pid: int) -> int:
    resident, shared = map(int, Path(f"/proc/{pid}/statm").read_text().split()[1:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


def child(mechanism: str, folder: str) -> None:
    """Load, answer some requests, and say so."""
    prepared = open_prepared(Path(folder))
    print("idle", flush=True)
    input()
    network = Network(prepared, mechanism)
    for _ in range(5):
        network.answer()
    print("done", flush=True)
    input()


def main(arguments: list[str]) -> None:
    """Print the tables."""
    ort.set_default_logger_severity(3)
    if arguments[:1] == ["--child"]:
        child(*arguments[1:])
        return
    if not _EXACT_HEAP.items() <= os.environ.items():  # as in the process that runs layers; read at its start
        os.execve(sys.executable, [sys.executable, __file__, *arguments], {**os.environ, **_EXACT_HEAP})
    for folder in arguments:
        steady(open_prepared(Path(folder)))
        print(f"{'mechanism':18}{'extra anonymous MiB':>20}{'of default':>12}")
        found = {name: statistics.median(anonymous_bytes(folder, name) for _ in range(3)) for name in MECHANISMS}
        for name, extra in found.items():
            print(f"{name:18}{extra / MIB:20.1f}{extra / found['default']:12.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""The process that measures how tasks slow each other down, and what it costs to start one.

    alone     load A ####      load B ##       execute ....
    beside    load A ########  while another thread loads B again and again     how much longer
    dispatch  a network of layers that take a moment, through the loop, a policy and a worker's thread

Two threads of one process, as ``schedule run`` has them: they share cores, caches, storage, and locks of the kernel.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.processes.memory import resident_bytes
from edgetune.processes.messages import serve
from edgetune.stages.schedule.live import LiveTaskBackend
from edgetune.stages.schedule.loop import ScheduleLoop
from edgetune.stages.schedule.network import Layer, LayeredNetwork
from edgetune.stages.schedule.policies.classic import Masa
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.sampling import FEWEST, made_up, open_weighed, why_not_cold
from edgetune.stages.schedule.state import Parallelism
from edgetune.stats import median
from edgetune.workloads.prepared import open_prepared

_LEAST_BYTES = 1 << 20
"""Smaller loads than this are over before anything could get into their way."""
_SMALL_SHARE = 1 / 64
"""Size of a small load beside a large one: its own time is then short beside the time for which it waits."""
_KINDS = 3
"""A large load, another large one, and a small one."""
_LAYERS = 200
"""Of the network whose layers take a moment: many, so that what a run costs once does not show."""
_RUNS = 5
"""Of that network: other work on the processor shows in some."""
_MOMENT_BYTES = 4 << 20
"""Bytes that such a layer sums up, in half a millisecond: the loop has gone to sleep then, as it does between real
tasks, and waking it takes longer than a message to a loop that is awake."""

Timed = Callable[[], float]
"""Does something, and returns what it took, s."""


def main(arguments: list[str]) -> None:
    """Answer one command: ``contention``, for a prepared folder, with the seconds that each figure may take."""
    serve(arguments, _measure)


def _measure(command: Mapping[str, Any]) -> dict[str, Any]:
    bench = _Bench(Path(command["folder"]), command["longest_s"], command["seed"])
    told = {"base_bytes": bench.base_bytes, "dispatch_s": median([dispatch_s() for _ in range(_RUNS)])}
    return {**told, "execute_beside_execute": bench.executions(), **bench.loads()}


class _Bench:
    """A network whose layers are loaded and executed by two threads.

    Args:
        folder: The prepared folder.
        longest_s: Time limit of each figure, s.
        seed: Of its inputs.
    """

    def __init__(self, folder: Path, longest_s: float, seed: int) -> None:
        self._prepared, self._longest_s = open_prepared(folder), longest_s
        self._layers, sessions_bytes = open_weighed(self._prepared, {}, drop_cache=True)
        self.base_bytes = resident_bytes() - sessions_bytes
        """Memory of the process beside sessions, bytes."""
        self._reads = self._read_by_each(np.random.default_rng(seed))
        layers = self._prepared.layers
        large = [index for index, layer in enumerate(layers) if layer.weight_bytes >= _LEAST_BYTES]
        self._by_size = sorted(large, key=lambda index: -layers[index].weight_bytes)

    def _read_by_each(self, drawn: np.random.Generator) -> list[dict[str, Any]]:
        """Return the tensors that each layer reads, so that layers can be executed in any order."""
        values = {tensor.name: made_up(tensor, drawn) for tensor in self._prepared.inputs}
        reads = []
        for index, layer in enumerate(self._prepared.layers):
            reads.append({name: values[name] for name in layer.inputs})
            loaded = self._layers.load(index) if layer.weights else None
            values.update(self._layers.execute(index, loaded, reads[-1]))
            if loaded is not None:
                self._layers.unload(loaded)
        return reads

    def executions(self) -> float:
        """Return by how much executions take longer beside others."""
        with self._executing(range(len(self._reads))) as execute:
            return self._beside(execute, execute) / self._beside(execute)

    def loads(self) -> dict[str, float]:
        """Return the effects of loads on each other and on executions; none where no load is large or cold."""
        layers = self._prepared.layers
        files = [self._prepared.folder / weight.file for layer in layers for weight in layer.weights]
        if len(self._by_size) < _KINDS or why_not_cold(files) is not None:
            return {}
        large, second, *others = self._by_size
        wanted_bytes = _SMALL_SHARE * layers[large].weight_bytes
        small = min(others, key=lambda index: abs(layers[index].weight_bytes - wanted_bytes))
        load_large, load_second, load_small = (partial(self._load, index) for index in (large, second, small))
        shared = self._beside(load_second, load_large) / self._beside(load_second)
        waited_s = self._beside(load_small, load_large) - shared * self._beside(load_small)
        told = {"load_cpu": self._busy(load_large), "load_beside_load": shared, "queue_s": max(waited_s, 0.0)}
        with self._executing(index for index in range(len(layers)) if index != large) as execute:
            told["load_beside_execute"] = self._beside(load_large, execute) / self._beside(load_large)
            told["execute_beside_load"] = self._beside(execute, load_large) / self._beside(execute)
        return told

    def _load(self, index: int) -> float:
        """Load from storage, and unload."""
        begun = time.perf_counter()
        loaded = self._layers.load(index)
        taken_s = time.perf_counter() - begun
        self._layers.unload(loaded)
        return taken_s

    @contextmanager
    def _executing(self, indices: Iterable[int]) -> Iterator[Timed]:
        """Yield a function that executes some layers one after another; their weights are in memory meanwhile."""
        layers = self._prepared.layers
        loaded = {index: self._layers.load(index) if layers[index].weights else None for index in indices}

        def execute() -> float:
            begun = time.perf_counter()
            for index, held in loaded.items():
                self._layers.execute(index, held, self._reads[index])
            return time.perf_counter() - begun

        try:
            yield execute
        finally:
            for held in loaded.values():
                if held is not None:
                    self._layers.unload(held)

    def _beside(self, work: Timed, other: Timed | None = None) -> float:
        """Return the median time of something, alone, or while another thread does something else again and again."""
        over = threading.Event()

        def again() -> None:
            while other is not None and not over.is_set():
                other()

        thread = threading.Thread(target=again)
        thread.start()
        taken_s: list[float] = []
        end = time.perf_counter() + self._longest_s
        try:
            while len(taken_s) < FEWEST or time.perf_counter() < end:
                taken_s.append(work())
        finally:
            over.set()
            thread.join()
        return median(taken_s)

    def _busy(self, work: Timed) -> float:
        """Return the share of its time in which something keeps a core busy, 0 to 1."""
        begun_s = time.thread_time()
        taken_s = sum(work() for _ in range(FEWEST))
        return min((time.thread_time() - begun_s) / taken_s, 1.0)


def dispatch_s() -> float:
    """Return the time to decide on a task, hand it to a worker and learn that it has ended, s."""
    layers = tuple(Layer(str(n), "other", 0, 0, 0, 0.0, 0.0, (n - 1,) if n else ()) for n in range(_LAYERS))
    network, moments = LayeredNetwork("moments", layers), _Moments()
    backend = LiveTaskBackend({"moments": moments}, workers=1, answers=_Unanswered(), budget=lambda _: _LEAST_BYTES)
    loop = ScheduleLoop(Masa(), backend, {"moments": network}, [Request(0, "moments", 0)], parallelism=Parallelism(1))
    begun = time.perf_counter()
    try:
        loop.run()
    finally:
        backend.close()
    return (time.perf_counter() - begun - moments.taken_s) / _LAYERS


class _Moments:
    """A ``Runnable`` whose layers take a moment each, and which says how long in all."""

    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    reads: Sequence[Sequence[str]] = ((),) * _LAYERS

    def __init__(self) -> None:
        self.taken_s = 0.0
        self._numbers = np.ones(_MOMENT_BYTES // 8)

    def load(self, layer: int) -> None: ...

    def execute(self, layer: int, loaded: Any, values: Mapping[str, Any]) -> Mapping[str, Any]:  # noqa: ARG002
        begun = time.perf_counter()
        self._numbers.sum()
        self.taken_s += time.perf_counter() - begun
        return {}

    def unload(self, loaded: None) -> None: ...


class _Unanswered:
    """A ``DataExchange`` without samples, which drops answers."""

    def sample(self, request: int, network: str) -> Mapping[str, Any]:  # noqa: ARG002
        return {}

    def take(self, request: int, network: str, outputs: Mapping[str, Any]) -> None: ...


if __name__ == "__main__":
    main(sys.argv[1:])

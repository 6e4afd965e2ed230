"""The process in which layers are measured, each alone.

    layer       conv1                      conv2                      fc6
    loads       ####  (again and again)    ####                       ####       file cached, or dropped before each
    executes    ......(again and again)    ......                     ......     on what the layers before it made
    peak        reset - execute - read     ...

It is a process of its own so that the memory it takes is that of layers and of nothing else, and so that a layer that
crashes is a row of the table. Weights are loaded, executed on and unloaded as ``schedule run`` does it. Between two
executions of a layer the processor's caches are swept: where networks share a machine, others have run since, and the
weights of a layer come from memory (with a 32 MiB cache, a layer of 38 MB took 1.1 ms again and again and 1.7 ms so).
"""

import contextlib
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.processes.families import (
    anonymous_bytes,
    give_back,
    peak_bytes,
    reset_peaks,
    resident_bytes,
    without_collections,
)
from edgetune.stages.schedule.executor import PreparedLayers
from edgetune.stages.schedule.weights import cached_share, drop_cached
from edgetune.stats import StoppingRule
from edgetune.workloads.prepared import Prepared, TensorSpec, check_file, open_prepared

FEWEST = 6
"""Samples below which there is no 95 % interval of a median: something slow is sampled so often at least, unless fewer
are asked for."""
_CACHED_SHARE = 0.05
"""With more of a file than this in the page cache, a load is not from storage: reading ahead leaves a page or two."""


def sampled(rule: StoppingRule, longest_s: float, once: Callable[[], float]) -> list[float]:
    """Return samples until the rule is content, or after ``longest_s`` once there are ``FEWEST``."""
    found: list[float] = []
    fewest = FEWEST if rule.fixed is None else rule.fixed
    end = time.perf_counter() + longest_s
    gc.collect()
    with without_collections():  # one would be counted as a slow layer
        while (more := rule.more(found)) > 0:
            for _ in range(more):
                found.append(once())
                if len(found) >= fewest and time.perf_counter() > end:
                    return found
    return found


def why_not_cold(files: Sequence[Path]) -> str | None:
    """Drop files from the page cache and return why loads would not be from storage, if they would not."""
    for path in files:
        drop_cached(path)
        share = cached_share(path)
        if share is None:
            return "from storage: the system does not say what it has cached"
        if share > _CACHED_SHARE:
            return f"from storage: {share:.0%} of {path.name} stays cached: in memory, or mapped by another program"
    return None


def rise_bytes(work: Callable[[], Any]) -> int | None:
    """Return the most by which some work raises resident memory, bytes; ``None`` where the kernel does not tell."""
    give_back()
    if not reset_peaks() or (before := peak_bytes()) is None:
        return None
    made = work()
    after = peak_bytes()
    del made
    return None if after is None else after - before


def open_weighed(prepared: Prepared, changed_ns: Mapping[str, int]) -> tuple[PreparedLayers, int]:
    """Return a network with the sessions of all its layers, and how many bytes these take.

    They are made twice, the second time to be weighed: with the first, ONNX Runtime sets up what all sessions share.
    """
    kept = PreparedLayers(prepared, changed_ns, drop_cache=False)
    before = resident_bytes()
    weighed = PreparedLayers(prepared, changed_ns, drop_cache=False)
    taken_bytes = max(resident_bytes() - before, 0)
    del weighed
    return kept, taken_bytes


def made_up(tensor: TensorSpec, drawn: np.random.Generator) -> Any:
    """Return an input for ONNX Runtime: random numbers, or zeros for integers, which may be places in a table."""
    import onnxruntime as ort

    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        array = drawn.standard_normal(tensor.shape, dtype=np.float32).astype(dtype)
    else:
        array = np.zeros(tensor.shape, dtype)
    return ort.OrtValue.ortvalue_from_numpy(array)


_PEAKS = 3
"""Executions whose peak is read; the highest counts."""
_SWEEP_BYTES = (8 << 20, 128 << 20)
"""The least and the most that is read to sweep the caches: twice the last level in between. Beyond, caches are those of
a server with many other programs."""
Values = dict[str, Any]


class LayerBench:
    """A prepared network of which every layer is measured once, in order; see ``processes.messages``.

    Commands are ``open`` with a prepared folder, then ``layer`` for each of its layers in order.
    """

    def __init__(self) -> None:
        self._prepared: Prepared | None = None
        self._layers: Any = None
        self._values: Values = {}
        self._sweep = np.ones(0, np.uint64)

    def __call__(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one command."""
        if command["command"] == "open":
            return self._open(Path(command["folder"]), command["seed"])
        rule = StoppingRule(**command["rule"])
        return self._layer(command["index"], rule, command["longest_s"], cold=command["cold"])

    def _open(self, folder: Path, seed: int) -> dict[str, Any]:
        prepared = self._prepared = open_prepared(folder)
        changed_ns: dict[str, int] = {}
        self._layers, sessions_bytes = open_weighed(prepared, changed_ns)
        base_bytes = resident_bytes() - sessions_bytes  # without libraries that only hashing loads
        own_bytes = anonymous_bytes()
        own = {} if own_bytes is None else {"base_anonymous_bytes": max(own_bytes - sessions_bytes, 0)}
        changed_ns |= {w.file: check_file(prepared, w.file) for layer in prepared.layers for w in layer.weights}
        self._sweep = np.ones(_sweep_bytes() // 8, np.uint64)
        drawn = np.random.default_rng(seed)
        self._values = {tensor.name: made_up(tensor, drawn) for tensor in prepared.inputs}
        return {"sessions_bytes": sessions_bytes, "base_bytes": base_bytes, **own}

    def _layer(self, index: int, rule: StoppingRule, longest_s: float, *, cold: bool) -> dict[str, Any]:
        """Measure a layer, and keep its outputs for those after it."""
        assert self._prepared is not None
        layer = self._prepared.layers[index]
        files = [self._prepared.folder / name for name in dict.fromkeys(w.file for w in layer.weights)]
        samples: dict[str, list[float]] = {"unload": []}
        reasons: list[str | None] = []
        if files:
            samples["load"] = sampled(rule, longest_s, lambda: self._load_s(index, [], samples["unload"]))
            if cold:
                reasons.append(why_not_cold(files))
                if reasons[0] is None:
                    samples["unload"].clear()
                    samples["cold_load"] = sampled(
                        rule, longest_s, lambda: self._load_s(index, files, samples["unload"])
                    )
        loaded = self._layers.load(index) if files else None
        read = {name: self._values[name] for name in layer.inputs}
        try:
            begun = time.perf_counter()
            made: Values = dict(self._layers.execute(index, loaded, read))
            first_execute_s = time.perf_counter() - begun
            samples["execute"] = sampled(rule, longest_s, lambda: self._execute_s(index, loaded, read))
            peaks = [rise_bytes(lambda: self._layers.execute(index, loaded, read)) for _ in range(_PEAKS)]
        finally:
            read.clear()
            if loaded is not None:
                self._layers.unload(loaded)
        self._values.update(made)
        self._forget(index)
        peak_bytes = max(filter(None, peaks), default=None if None in peaks else 0)
        reasons.append("peak: not told" if peak_bytes is None else None)
        columns = {"load_s": 0.0, "first_execute_s": first_execute_s, "peak_bytes": peak_bytes}
        return {"samples": samples, "columns": {**columns, "reason": "; ".join(filter(None, reasons)) or None}}

    def _load_s(self, index: int, dropped: Sequence[Path], unloads_s: list[float]) -> float:
        """Return the time of a load, its files dropped before and after, and note the time of the unload."""
        for path in dropped:
            drop_cached(path)
        begun = time.perf_counter()
        loaded = self._layers.load(index)
        taken_s = time.perf_counter() - begun
        self._layers.unload(loaded, drop_cache=bool(dropped))
        unloads_s.append(time.perf_counter() - begun - taken_s)
        return taken_s

    def _execute_s(self, index: int, loaded: Any, read: Values) -> float:
        self._sweep.max()
        for value in read.values():  # the layers before have just made them
            value.numpy()
        begun = time.perf_counter()
        made = self._layers.execute(index, loaded, read)
        taken_s = time.perf_counter() - begun
        del made
        return taken_s

    def _forget(self, index: int) -> None:
        """Drop values that no layer after this one reads."""
        assert self._prepared is not None
        wanted = {name for layer in self._prepared.layers[index + 1 :] for name in layer.inputs}
        self._values = {name: value for name, value in self._values.items() if name in wanted}


def _sweep_bytes() -> int:
    """Return twice the size of the last-level cache, within bounds. Source: kernel, cacheinfo (``8192K``)."""
    least, most = _SWEEP_BYTES
    for level in (3, 2):
        with contextlib.suppress(OSError, ValueError):
            text = Path(f"/sys/devices/system/cpu/cpu0/cache/index{level}/size").read_text()
            return min(max(2 * 1024 * int(text.strip().removesuffix("K")), least), most)
    return least

"""The process in which layers are measured, one after another, each alone.

    layer       conv1                      conv2                      fc6
    loads       ####  (again and again)    ####                       ####       file cached, or dropped before each
    executes    ......(again and again)    ......                     ......     on what the layers before it made
    peak        reset - execute - read     ...

It is a process of its own so that the memory it takes is that of layers and of nothing else, and so that a layer that
crashes is a row of the table. Weights are loaded, executed on and unloaded as ``schedule run`` does it. Between two
executions the processor's caches are swept: where networks share a machine, others have run since, and the weights of a
layer come from memory (with a 32 MiB cache, a layer of 38 MB took 1.1 ms again and again and 1.7 ms so).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.processes.serving import serve
from edgetune.schedule.executor import PreparedLayers
from edgetune.schedule.page_cache import cached_share
from edgetune.schedule.weights import drop_cached
from edgetune.stats import StoppingRule
from edgetune.workloads.prepared import Prepared, Tensor, check_file, open_prepared

FEWEST = 6
"""Samples below which there is no 95 % interval of a median: a slow layer is sampled so often at least, unless fewer
are asked for."""
_PEAKS = 3
"""Executions whose peak is read; the highest counts."""
_CACHED_SHARE = 0.05
"""With more of a file than this in the page cache, a load is not from storage: reading ahead leaves a page or two."""
_SWEEP_BYTES = (8 << 20, 128 << 20)
"""The least and the most that is read to sweep the caches: twice the last level in between. Beyond, caches are those of
a server with many other programs."""
_RESET_PEAK = "5"  # proc(5), /proc/pid/clear_refs: the peak resident size becomes the present one

Values = dict[str, Any]


def main(arguments: list[str]) -> None:
    """Answer commands: ``open`` a prepared folder, then ``layer`` for each of its layers in order."""
    bench = _Bench()
    serve(arguments, bench.handle)


class _Bench:
    """A prepared network of which every layer is measured once, in order."""

    def __init__(self) -> None:
        self._prepared: Prepared | None = None
        self._layers: Any = None
        self._values: Values = {}
        self._sweep = np.ones(_sweep_bytes() // 8, np.uint64)

    def handle(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out one command."""
        if command["command"] == "open":
            return self._open(Path(command["folder"]), command["seed"])
        rule = StoppingRule(**command["rule"])
        return self._layer(command["index"], rule, command["longest_s"], cold=command["cold"])

    def _open(self, folder: Path, seed: int) -> dict[str, Any]:
        prepared = self._prepared = open_prepared(folder)
        changed_ns = {w.file: check_file(prepared, w.file) for layer in prepared.layers for w in layer.weights}
        self._layers = PreparedLayers(prepared, changed_ns, drop_cache=False)
        drawn = np.random.default_rng(seed)
        self._values = {tensor.name: _ort_value(_made_up(tensor, drawn)) for tensor in prepared.inputs}
        return {}

    def _layer(self, index: int, rule: StoppingRule, longest_s: float, *, cold: bool) -> dict[str, Any]:
        """Measure a layer, and keep its outputs for those after it."""
        assert self._prepared is not None
        layer = self._prepared.layers[index]
        files = [self._prepared.folder / name for name in dict.fromkeys(w.file for w in layer.weights)]
        reply: dict[str, Any] = {"loads_s": [], "cold_loads_s": [], "cold_reason": None}
        if files and cold:
            reply["cold_reason"] = _why_not_cold(files)
            if reply["cold_reason"] is None:
                reply["cold_loads_s"] = _sampled(rule, longest_s, lambda: self._load_s(index, files))
        if files:
            reply["loads_s"] = _sampled(rule, longest_s, lambda: self._load_s(index, []))
        loaded = self._layers.load(index) if files else None
        read = {name: self._values[name] for name in layer.inputs}
        try:
            made: Values = dict(self._layers.execute(index, loaded, read))
            reply["executions_s"] = _sampled(rule, longest_s, lambda: self._execute_s(index, loaded, read))
            reply["peak_bytes"] = _peak_bytes(lambda: self._layers.execute(index, loaded, read))
        finally:
            read.clear()
            if loaded is not None:
                self._layers.unload(loaded)
        self._values.update(made)
        self._forget(index)
        return reply

    def _load_s(self, index: int, dropped: Sequence[Path]) -> float:
        for path in dropped:
            drop_cached(path)
        begun = time.perf_counter()
        loaded = self._layers.load(index)
        taken_s = time.perf_counter() - begun
        self._layers.unload(loaded)
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
        """Drop what no layer after this one reads."""
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


def _sampled(rule: StoppingRule, longest_s: float, once: Callable[[], float]) -> list[float]:
    """Return samples until the rule is content, or after ``longest_s`` once there are ``FEWEST``."""
    found: list[float] = []
    fewest = FEWEST if rule.fixed is None else rule.fixed
    end = time.perf_counter() + longest_s
    gc.collect()
    gc.disable()  # a collection would be counted as a slow layer
    try:
        while (more := rule.more(found)) > 0:
            for _ in range(more):
                found.append(once())
                if len(found) >= fewest and time.perf_counter() > end:
                    return found
    finally:
        gc.enable()
    return found


def _why_not_cold(files: Sequence[Path]) -> str | None:
    """Drop files from the page cache and return why loads would not be from storage, if they would not."""
    for path in files:
        drop_cached(path)
        share = cached_share(path)
        if share is None:
            return "from storage: the system does not say what it has cached"
        if share > _CACHED_SHARE:
            return f"from storage: {share:.0%} of {path.name} stays cached: in memory, or mapped by another program"
    return None


def _peak_bytes(execute: Callable[[], Any]) -> int | None:
    """Return by how much executing raises what is resident, at the most; ``None`` where the kernel does not tell."""
    highest = 0
    for _ in range(_PEAKS):
        _give_back()
        try:
            Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
            before = _peak_resident_bytes()
            made = execute()
            highest = max(highest, _peak_resident_bytes() - before)
        except (OSError, ValueError):
            return None
        del made
    return highest


def _give_back() -> None:
    """Have the C library return what it keeps, or executions would be served from memory that is resident already."""
    gc.collect()
    with contextlib.suppress(AttributeError):  # of glibc
        ctypes.CDLL(None).malloc_trim(0)


def _peak_resident_bytes() -> int:
    """Return ``VmHWM``, see proc(5).

    Raises:
        OSError, ValueError: the system does not tell.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no VmHWM")


def _made_up(tensor: Tensor, drawn: np.random.Generator) -> Any:
    """Return an input: random numbers, or zeros for integers, which may be places in a table."""
    dtype = np.dtype(tensor.dtype)
    if dtype.kind == "f":
        return drawn.standard_normal(tensor.shape, dtype=np.float32).astype(dtype)
    return np.zeros(tensor.shape, dtype)


def _ort_value(array: Any) -> Any:
    import onnxruntime as ort

    return ort.OrtValue.ortvalue_from_numpy(array)


if __name__ == "__main__":
    main(sys.argv[1:])

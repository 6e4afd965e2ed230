"""The process in which a whole network is measured: loaded, run once and dropped, again and again.

    storage   load #########  execute ....  unload #     file dropped before each, or cached
    memory    rises ------------------->    falls        what stays while it is loaded, and the most

It is loaded for every request (``policies.bulk``), so that what counts is the execution right after a load: where
weights are mapped, it is what reads most of them from storage.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.processes.serving import serve
from edgetune.schedule.sampling import made_up, resident_bytes, rise_bytes, sampled, why_not_cold
from edgetune.schedule.weights import drop_cached
from edgetune.schedule.whole_session import WholeNetwork
from edgetune.stats import StoppingRule
from edgetune.workloads.prepared import Prepared, check_file, open_prepared


def main(arguments: list[str]) -> None:
    """Answer one command: ``whole``, for a prepared folder and a form."""
    serve(arguments, _measure)


def _measure(command: Mapping[str, Any]) -> dict[str, Any]:
    prepared = open_prepared(Path(command["folder"]))
    names = [name for name in prepared.files if name.startswith("whole")]
    for name in names:
        check_file(prepared, name)
    files = [prepared.folder / name for name in names]
    bench = _Bench(prepared, command, files)
    rule, longest_s = StoppingRule(**command["rule"]), command["longest_s"]
    bench.cycle(drop=False)  # what ONNX Runtime sets up once is no network's
    reply: dict[str, Any] = {"cached": bench.measure(rule, longest_s, drop=False), "stored": None, "cold_reason": None}
    if command["cold"]:
        reply["cold_reason"] = why_not_cold(files)
        if reply["cold_reason"] is None:
            reply["stored"] = bench.measure(rule, longest_s, drop=True)
    reply["peak_bytes"] = rise_bytes(bench.hold)
    reply["resident_bytes"] = bench.held_bytes
    return reply


class _Bench:
    """A whole network in one form."""

    def __init__(self, prepared: Prepared, command: Mapping[str, Any], files: Sequence[Path]) -> None:
        self._network = WholeNetwork(prepared, command["form"], threads=1, drop_cache=False)
        drawn = np.random.default_rng(command["seed"])
        self._values = {tensor.name: made_up(tensor, drawn) for tensor in prepared.inputs}
        self._files = files
        self.held_bytes: int | None = None

    def measure(self, rule: StoppingRule, longest_s: float, *, drop: bool) -> dict[str, list[float]]:
        """Return what loads, executions and unloads took."""
        taken: list[tuple[float, float, float]] = []

        def once() -> float:
            taken.append(self.cycle(drop=drop))
            return sum(taken[-1])

        sampled(rule, longest_s, once)
        loads_s, executions_s, unloads_s = map(list, zip(*taken, strict=True))
        return {"loads_s": loads_s, "executions_s": executions_s, "unloads_s": unloads_s}

    def cycle(self, *, drop: bool) -> tuple[float, float, float]:
        """Load, execute and unload; return what each took."""
        if drop:
            self._drop()
        at_s = [time.perf_counter()]
        loaded = self._network.load(0)
        at_s.append(time.perf_counter())
        made = self._network.execute(0, loaded, self._values)
        at_s.append(time.perf_counter())
        del made
        self._network.unload(loaded)
        if drop:
            self._drop()
        at_s.append(time.perf_counter())
        load_s, execute_s, unload_s = (end - begin for begin, end in itertools.pairwise(at_s))
        return load_s, execute_s, unload_s

    def _drop(self) -> None:
        for path in self._files:
            drop_cached(path)

    def hold(self) -> None:
        """Load and execute, and see what stays while it is loaded."""
        before = resident_bytes()
        loaded = self._network.load(0)
        made = self._network.execute(0, loaded, self._values)
        self.held_bytes = max(resident_bytes() - before, 0)
        del made
        self._network.unload(loaded)


if __name__ == "__main__":
    main(sys.argv[1:])

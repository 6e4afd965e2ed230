"""Shared by processes that measure layers and whole networks: samples, memory, made-up inputs, uncached files."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.processes.memory import give_back, peak_bytes, reset_peaks, resident_bytes, without_collections
from edgetune.stages.schedule.executor import PreparedLayers
from edgetune.stages.schedule.weights import cached_share, drop_cached
from edgetune.stats import StoppingRule
from edgetune.workloads.prepared import Prepared, TensorSpec

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

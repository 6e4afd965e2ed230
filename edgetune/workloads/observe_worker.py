"""What the child process runs of a network to observe its shapes, see ``observed``, or to find its batch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from edgetune import limits
from edgetune.artifacts.output_file import scratch_folder
from edgetune.errors import InputError
from edgetune.workloads.batch_runs import confirm
from edgetune.workloads.input_values import FROM_FILE, needs_runs
from edgetune.workloads.lazy import onnx
from edgetune.workloads.network_inputs import feeds
from edgetune.workloads.onnx_file import fix_dimensions, load_model, network_batch
from edgetune.workloads.ort_runs import RunError, Session, find_values
from edgetune.workloads.ort_session import require_onnxruntime
from edgetune.workloads.workload import Batch, Workload

_STACK_BYTES = 8 << 20
_COPIES = 6
"""Most copies of the weights in memory: read, written, mapped, loaded and prepared."""


class Observer:
    """Loads a network and runs it within the limits on memory.

    {"command": "load", "workload": {...}, "dimensions": {}}                  -> {"weight_bytes": 4096}
    {"command": "observe", "batch_size": 4, "inputs": null, "seed": 0}        -> {"runs": {...}, "sizes": {...}}
    {"command": "confirm", "batch": {...}, "inputs": null, "explain": true}   see ``batch_runs.confirm``
    {"command": "values", "batch": {...}}                                     -> {"values": [...]} or {"refused": ...}
    """

    def __call__(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a command."""
        if command["command"] == "load":
            require_onnxruntime(("CPUExecutionProvider",))
            self._workload, self._dimensions = Workload.from_plain(command["workload"]), command["dimensions"]
            self._model = load_model(self._workload, weights=True)
            return {"weight_bytes": self._model.ByteSize()}
        batch = Batch.from_plain(command["batch"]) if "batch" in command else None
        if batch is None:
            batch = network_batch(self._workload, self._dimensions, command["batch_size"])
        samples = max(3, batch.exported or 1) if command["command"] == "confirm" else 1
        if command["command"] == "observe" and batch.exported is None:
            samples = command["batch_size"]
        with scratch_folder() as folder, _bounded(samples, self._model.ByteSize()):
            if command["command"] == "observe":
                return self._observe(command, batch, folder)
            if command["command"] == "values":
                return self._values(batch, folder)
            given, explain = command["inputs"], command["explain"]
            return confirm(self._model, batch, self._dimensions, given, folder, explain=explain)

    def _fixed(self, batch: Batch, size: int | None = None) -> onnx.ModelProto:
        size = size or batch.exported or 1
        return fix_dimensions(self._model, batch_size=size, dimensions=self._dimensions, batch=batch)

    def _values(self, batch: Batch, folder: Path) -> dict[str, Any]:
        try:
            return {"values": [asdict(each) for each in find_values(self._fixed(batch), folder)]}
        except RunError:
            return {}
        except InputError as error:
            if error.hint != FROM_FILE:
                raise
            return {"refused": error.message}

    def _observe(self, command: Mapping[str, Any], batch: Batch, folder: Path) -> dict[str, Any]:
        size, workload, model = command["batch_size"], self._workload, self._fixed(batch, command["batch_size"])
        if command["inputs"] is None and workload.values is None and workload.kind != "zoo" and needs_runs(model):
            workload = replace(workload, values=find_values(self._fixed(batch, size), folder))
        given, seed = command["inputs"], command["seed"]
        feed = feeds(workload, model, size, self._dimensions, inputs_file=given, seed=seed)
        session = Session(model, folder, profile=True)
        try:
            session.run(feed)
        except RunError as error:
            raise InputError(f"ONNX Runtime cannot run the network: {error}", "it may need real inputs") from None
        ((runs, sizes),) = session.traces()
        return {"runs": runs, "sizes": sizes}


@contextlib.contextmanager
def _bounded(samples: int, weight_bytes: int) -> Iterator[None]:
    """Limit the memory of the network, without the stacks of threads.

    Raises:
        InputError: the network exceeds the limit.
    """
    stacks = 2 * _STACK_BYTES * (os.cpu_count() or 1)
    allowed = limits.limit("observe_bytes") * samples + _COPIES * weight_bytes
    with limits.bounded_memory(allowed + stacks) as bounded:
        try:
            yield
        except MemoryError:
            if bounded:
                raise limits.beyond("observe_bytes", "a run of the network") from None
            raise

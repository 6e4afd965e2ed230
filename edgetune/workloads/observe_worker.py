"""The process that runs a network to observe its shapes, see ``observed``, or to find its batch, see ``batch``."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgetune import limits
from edgetune.artifacts.scratch_folder import scratch_folder
from edgetune.errors import InputError
from edgetune.processes.messages import serve
from edgetune.workloads.batch_runs import confirm
from edgetune.workloads.model_storage import save_model
from edgetune.workloads.network_inputs import feeds
from edgetune.workloads.observed import name_by_path, read_profile
from edgetune.workloads.onnx_file import fixed_model, load_model, network_batch
from edgetune.workloads.ort_session import cannot_load, one_line, require_onnxruntime, session_options
from edgetune.workloads.workload import Batch, Workload

_STACK_BYTES = 8 << 20
_COPIES = 6
"""Most copies of the weights in memory: read, written, mapped, loaded and prepared."""
_OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")


def main(arguments: list[str]) -> None:
    """Answer ``load`` with the workload and the arguments of ``observed.observe``, then ``run``; see also ``confirm``.

    ``weights`` loads a workload for ``confirm``, which tells whether a candidate is its batch, see ``batch_runs``.
    """
    serve(arguments, Observer())


class Observer:
    """Loads a network and runs it once, within the limits on memory."""

    def __call__(self, command: Mapping[str, Any]) -> dict[str, Any]:
        if command["command"] == "confirm":
            return self._confirm(command)
        if command["command"] == "weights":
            require_onnxruntime(("CPUExecutionProvider",))
            self._model, self._dimensions = (
                load_model(Workload.from_plain(command["workload"]), weights=True),
                command["dimensions"],
            )
            return {"weight_bytes": self._model.ByteSize()}
        return self._load(command) if command["command"] == "load" else self._run()

    def _confirm(self, command: Mapping[str, Any]) -> dict[str, Any]:
        batch = Batch.from_plain(command["batch"])
        with scratch_folder() as folder, _bounded(max(3, batch.exported or 1), self._model.ByteSize()):
            return confirm(
                self._model, batch, self._dimensions, command["inputs"], Path(folder), explain=command["explain"]
            )

    def _load(self, command: Mapping[str, Any]) -> dict[str, Any]:
        require_onnxruntime(("CPUExecutionProvider",))
        batch_size, dimensions = command["batch_size"], command["dimensions"]
        workload = Workload.from_plain(command["workload"])
        exported = network_batch(workload, dimensions).exported
        self._samples = max(batch_size, 1) if exported is None else 1  # nobody asks for a batch that is built in
        self._model = fixed_model(workload, batch_size, dimensions, weights=True)
        with _bounded(self._samples, 0):
            self._feed = feeds(
                workload, self._model, batch_size, dimensions,
                inputs_file=command["inputs_file"], seed=command["seed"],
            )  # fmt: skip
        return {"weight_bytes": self._model.ByteSize(), "samples": self._samples}

    def _run(self) -> dict[str, Any]:
        names: dict[str, Any] = {}
        name_by_path(self._model.graph, names)
        with scratch_folder() as folder:
            path = Path(folder) / "model.onnx"
            save_model(self._model, path)
            with _bounded(self._samples, self._model.ByteSize()):
                trace = _traced(path, self._feed)
            events = json.loads(trace.read_text(encoding="utf-8", errors="replace"))
        runs, sizes = read_profile(events, names)
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


def _traced(path: Path, feed: Mapping[str, Any]) -> Path:
    """Run a network once and return the file of the events that ONNX Runtime recorded."""
    import onnxruntime as ort

    options = session_options("disabled")
    options.enable_profiling = True
    options.profile_file_prefix = str(path.with_name("trace"))
    session = None
    try:
        session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        session.run(None, feed)
    except Exception as error:  # its exception types share no base class but Exception
        if any(sign in str(error) for sign in _OUT_OF_MEMORY):
            raise MemoryError from None
        if session is None:
            raise cannot_load("the network", error) from None
        raise InputError(f"ONNX Runtime cannot run the network: {one_line(error)}", "it may need real inputs") from None
    return Path(session.end_profiling())


if __name__ == "__main__":
    main(sys.argv[1:])

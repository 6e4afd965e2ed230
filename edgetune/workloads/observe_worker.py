"""The process that runs a network to observe its shapes, see ``observed``, or to find its batch, see ``batch``."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgetune import limits
from edgetune.artifacts.scratch_folder import scratch_folder
from edgetune.errors import InputError
from edgetune.processes.messages import serve
from edgetune.workloads.batch_runs import confirm
from edgetune.workloads.network_inputs import feeds
from edgetune.workloads.onnx_file import fix_dimensions, fixed_model, load_model, network_batch
from edgetune.workloads.ort_runs import RunError, Session
from edgetune.workloads.ort_session import require_onnxruntime
from edgetune.workloads.value_runs import FROM_FILE, find_values
from edgetune.workloads.workload import Batch, Workload

_STACK_BYTES = 8 << 20
_COPIES = 6
"""Most copies of the weights in memory: read, written, mapped, loaded and prepared."""


def main(arguments: list[str]) -> None:
    """Answer ``load`` with the workload and the arguments of ``observed.observe``, then ``run``; see also ``confirm``.

    ``weights`` loads a workload for ``confirm``, which tells whether a candidate is its batch, see ``batch_runs``.
    """
    serve(arguments, Observer())


class Observer:
    """Loads a network and runs it once, within the limits on memory."""

    def __call__(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reply to a command."""
        if command["command"] == "confirm":
            return self._confirm(command)
        if command["command"] == "values":
            return self._values(command)
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

    def _values(self, command: Mapping[str, Any]) -> dict[str, Any]:
        batch = Batch.from_plain(command["batch"])
        with scratch_folder() as folder, _bounded(max(1, batch.exported or 1), self._model.ByteSize()):
            model = fix_dimensions(
                self._model, batch_size=batch.exported or 1, dimensions=self._dimensions, batch=batch
            )
            try:
                return {"values": [asdict(each) for each in find_values(model, Path(folder))]}
            except RunError:
                return {}
            except InputError as error:
                if error.hint != FROM_FILE:
                    raise
                return {"refused": error.message}

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
        with scratch_folder() as folder, _bounded(self._samples, self._model.ByteSize()):
            session = Session(self._model, Path(folder), profile=True)
            try:
                session.run(self._feed)
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


if __name__ == "__main__":
    main(sys.argv[1:])

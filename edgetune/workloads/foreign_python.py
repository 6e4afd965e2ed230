"""Networks and training files in another Python than edgetune's: ``--python /usr/bin/python3``.

The libraries of JetPack 4 and 5 are for their Python 3.6 and 3.8 alone. The child of the profiler prepares the network
and its inputs; a worker of one file, which that Python can read, runs them and takes the times:

    edgetune --> child (Python of edgetune) --> foreign_python_worker.py (the other Python)
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.artifacts.output_file import scratch_folder
from edgetune.artifacts.profile import Task
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.child import Child
from edgetune.workloads.network_inputs import feeds
from edgetune.workloads.ort_session import model_source
from edgetune.workloads.workload import RunOptions, Workload

WORKER = str(Path(__file__).with_name("foreign_python_worker.py"))
_ANSWER_WITHIN_S = 60.0


def versions(python: str) -> Mapping[str, str | None]:
    """Return the versions of another Python and its libraries, see ``software_versions``.

    Raises:
        InputError: it cannot be started, or is no Python 3.6 or newer.
    """
    try:
        with closing(Child(WORKER, python=python)) as child:
            reply = child.ask({"command": "versions"}, deadline_s=time.monotonic() + _ANSWER_WITHIN_S)
    except (EdgetuneError, TimeoutError) as error:
        why = error.message if isinstance(error, EdgetuneError) else f"it did not answer in {_ANSWER_WITHIN_S:g} s"
        raise InputError(
            f"--python {python}: {why}", "name a Python 3.6 or newer, e.g. --python /usr/bin/python3"
        ) from None
    found: Mapping[str, str | None] = reply["versions"]
    return found


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> ForeignSteps:  # noqa: ARG001
    """Load a network or a training file in the other Python; see ``steps.open_step``.

    Raises:
        InputError: the network or file cannot be used in that Python.
        DeviceError: that Python lacks ONNX Runtime, or its provider.
    """
    child = Child(WORKER, python=options.python)
    command: dict[str, Any] = {"threads": options.threads or 0}
    try:
        if not workload.is_graph:
            command |= {"command": "load", "path": str(workload.path), "batch_size": batch_size}
            child.ask(command, deadline_s=math.inf)
            return ForeignSteps(child)
        source, graph = model_source(workload, batch_size, options.dimensions)
        feed = feeds(workload, graph, batch_size, options.dimensions, inputs_file=options.inputs, seed=options.seed)
        with scratch_folder() as folder:
            command |= {"command": "load", "model": source, "inputs": list(feed)}
            command |= {"arrays": str(folder / "inputs.npz"), "providers": list(options.ort_providers)}
            np.savez(command["arrays"], *feed.values())
            if isinstance(source, bytes):
                command["model"] = str(folder / "network.onnx")
                Path(command["model"]).write_bytes(source)
            child.ask(command, deadline_s=math.inf)
    except BaseException:
        child.close()
        raise
    return ForeignSteps(child)


class ForeignSteps:
    """Minibatches that the worker runs and times; a ``TimedSteps``."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def times_ns(self, minibatches: int) -> tuple[list[int], list[int]]:
        """Run minibatches back to back; return when each started and ended, CLOCK_MONOTONIC, ns.

        Raises:
            InputError: a minibatch failed, or the worker ended.
        """
        reply = self._child.ask({"command": "run", "minibatches": minibatches}, deadline_s=math.inf)
        return reply["start_ns"], reply["end_ns"]

    def columns(self) -> dict[str, Any]:
        """Return no further columns."""
        return {}

    def close(self) -> None:
        """End the worker."""
        self._child.close()

"""Runs of a network on ONNX Runtime that show how it behaves: its outputs, the shapes inside, its trips and branches.

The profiler reports the shapes of the inputs and outputs of every operator, including those in bodies of control flow,
and keeps no tensors in memory.

Source: onnxruntime, ``sequential_executor.cc``, ``input_type_shape`` and ``output_type_shape`` of each kernel's event.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx

from edgetune.workloads.model_storage import save_model
from edgetune.workloads.observed import name_by_path, read_profile
from edgetune.workloads.ort_session import cannot_load, one_line, require_onnxruntime, session_options

Trace = tuple[dict[str, int], dict[str, tuple[int, list[int]]]]
"""Runs of operators and sizes of tensors, the fields of an ``Observation``."""

_FAILED = re.compile(r"running (\w+) node\. Name:'([^']*)'")
_OUT_OF_MEMORY = ("Failed to allocate memory", "bad_alloc", "bad allocation")


class RunError(Exception):
    """The network does not run on these inputs; the message names the operator where ONNX Runtime does."""


class Session:
    """A network loaded without optimisations.

    Args:
        model: The network with its weights; the outputs change for a moment, and with ``profile`` the names of nodes.
        folder: A folder for its files.
        expose: Tensors inside that are outputs too.
        profile: Whether ``traces`` is called.

    Raises:
        InputError: it cannot be loaded.
    """

    def __init__(
        self, model: onnx.ModelProto, folder: Path, *, expose: Sequence[str] = (), profile: bool = False
    ) -> None:
        ort, options = require_onnxruntime(("CPUExecutionProvider",)), session_options("disabled")
        self._names: dict[str, tuple[str, onnx.NodeProto]] = {}
        self._ended: list[bool] = []
        if profile:
            name_by_path(model.graph, self._names)
            options.enable_profiling = True
            options.profile_file_prefix = str(folder / "trace")
        own = len(model.graph.output)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in expose)
        path = save_model(model, folder / "model.onnx")
        del model.graph.output[own:]
        try:
            self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exception types share no base class but Exception
            if any(sign in str(error) for sign in _OUT_OF_MEMORY):
                raise MemoryError from None
            raise cannot_load("the network", error) from None
        self.outputs = [output.name for output in self._session.get_outputs()]

    def run(self, feed: Mapping[str, Any]) -> list[Any]:
        """Return the outputs, of which some may be no arrays.

        Raises:
            RunError: the network does not run on this feed.
        """
        self._ended.append(False)
        try:
            outputs: list[Any] = self._session.run(None, dict(feed))
        except Exception as error:
            if any(sign in str(error) for sign in _OUT_OF_MEMORY):
                raise MemoryError from None
            failed = _FAILED.search(str(error))
            told = f"node {failed[2]!r} ({failed[1]}) does not run" if failed and not self._names else one_line(error)
            raise RunError(told) from None
        self._ended[-1] = True
        return outputs

    def traces(self) -> list[Trace]:
        """Return what each run did that ended well, and stop profiling."""
        text = Path(self._session.end_profiling()).read_text(encoding="utf-8", errors="replace")
        events = json.loads(text)
        spans = [(event["ts"], event["ts"] + event["dur"]) for event in events if event.get("name") == "model_run"]
        found = [
            read_profile((event for event in events if start <= event["ts"] <= end), self._names)
            for start, end in spans
        ]
        return [trace for trace, ended in zip(found, self._ended, strict=False) if ended]

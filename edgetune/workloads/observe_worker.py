"""The process in which a network runs once to show its shapes; see ``observed``."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetune.errors import InputError
from edgetune.processes.serving import serve
from edgetune.workloads.model_file import save_model
from edgetune.workloads.network_inputs import feeds
from edgetune.workloads.observed import name_by_path, read_profile
from edgetune.workloads.onnx_file import fixed_model
from edgetune.workloads.ort_session import one_line, require_onnxruntime
from edgetune.workloads.workload import Workload


def main(arguments: list[str]) -> None:
    """Answer one command: what ``observed.observe`` is given, with the workload."""
    serve(arguments, _observe)


def _observe(command: Mapping[str, Any]) -> dict[str, Any]:
    ort = require_onnxruntime(("CPUExecutionProvider",))
    batch_size, dimensions = command["batch_size"], command["dimensions"]
    workload = Workload.from_plain(command["workload"])
    model = fixed_model(workload, batch_size, dimensions, weights=True)
    feed = feeds(workload, model, batch_size, dimensions, inputs_file=command["inputs_file"], seed=command["seed"])
    names: dict[str, Any] = {}
    name_by_path(model.graph, names)
    with tempfile.TemporaryDirectory(prefix="edgetune-") as folder:
        path = Path(folder) / "model.onnx"
        save_model(model, path)
        options = ort.SessionOptions()
        options.log_severity_level = 3
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.enable_profiling = True
        options.profile_file_prefix = str(Path(folder) / "trace")
        try:
            session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            session.run(None, feed)
        except Exception as error:  # its exception types share no base class but Exception
            raise InputError(
                f"ONNX Runtime cannot run the network: {one_line(error)}", "it may need real inputs"
            ) from None
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8", errors="replace"))
    runs, sizes = read_profile(events, names)
    return {"runs": runs, "sizes": sizes}


if __name__ == "__main__":
    main(sys.argv[1:])

"""A process outside the memory limit: it makes samples before a run, and checks answers after it.

Commands: ``sample`` writes what a network is fed; ``difference`` runs the whole network on it and
compares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.processes.serving import serve
from edgetune.schedule.exchange import read, write
from edgetune.schedule.executor import open_session
from edgetune.workloads.prepared import Prepared, open_prepared

Command = Mapping[str, Any]


def main(arguments: list[str]) -> None:
    """Answer commands until their pipe ends."""
    serve(arguments, _handle)


def _handle(command: Command) -> dict[str, Any]:
    prepared, folder = open_prepared(Path(command["prepared"])), Path(command["folder"])
    if command["command"] == "sample":
        write(folder, "input", _sample(prepared, command))
        return {}
    return {"difference": _difference(prepared, folder)}


def _sample(prepared: Prepared, command: Command) -> list[Any]:
    import onnx

    from edgetune.workloads.network_inputs import random_inputs, read_inputs

    graph = onnx.load(str(prepared.folder / prepared.whole["external"]), load_external_data=False)
    given = command["inputs"]
    arrays = (
        random_inputs(graph, seed=command["seed"]) if given is None else read_inputs(given, graph, prepared.batch_size)
    )
    return [arrays[tensor.name] for tensor in prepared.inputs]


def _difference(prepared: Prepared, folder: Path) -> float:
    """Return the largest difference between an answer and what the whole network answers, by its largest magnitude."""
    answers = read(folder, "answer", len(prepared.outputs))
    references = _references(prepared, folder)
    return max(relative_difference(answer, other) for answer, other in zip(answers, references, strict=True))


def _references(prepared: Prepared, folder: Path) -> list[Any]:
    """Return what the whole network answers, from a file where that is of this sample."""
    import onnxruntime as ort

    names = [tensor.name for tensor in prepared.inputs]
    if _changed_ns(folder, "reference") <= _changed_ns(folder, "input"):
        fed = dict(zip(names, read(folder, "input", len(names)), strict=True))
        session = open_session(prepared.folder / prepared.whole["external"], ort.SessionOptions())
        write(folder, "reference", session.run([tensor.name for tensor in prepared.outputs], fed))
    return read(folder, "reference", len(prepared.outputs))


def _changed_ns(folder: Path, what: str) -> int:
    """Return when the last of some files was written; 0 where there is none."""
    return max((path.stat().st_mtime_ns for path in folder.glob(f"{what}-*.npy")), default=0)


def relative_difference(answer: Any, reference: Any) -> float:
    """Return the largest difference of two arrays as a share of the reference's largest magnitude.

    Infinite where they differ in shape, or one is no number where the other is one.
    """
    a, b = np.asarray(answer, np.float64), np.asarray(reference, np.float64)
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return float("inf")
    finite = np.isfinite(b)
    if not finite.any():
        return 0.0
    most, scale = float(np.abs(a[finite] - b[finite]).max()), float(np.abs(b[finite]).max())
    return most / scale if scale > 0 else (0.0 if most == 0 else float("inf"))


if __name__ == "__main__":
    main(sys.argv[1:])

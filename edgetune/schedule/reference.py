"""A process outside the memory limit: it makes samples before a run, and checks answers after it.

Commands: ``sample`` writes what a network is fed; ``difference`` runs the whole network on it and
compares.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgetune.errors import InputError
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
    return _difference(prepared, folder)


def _sample(prepared: Prepared, command: Command) -> list[Any]:
    import onnx

    from edgetune.workloads.network_inputs import random_inputs, read_inputs

    graph = onnx.load(str(prepared.folder / prepared.whole["external"]), load_external_data=False)
    given = command["inputs"]
    if given is None:
        try:
            arrays = random_inputs(graph, seed=command["seed"])
        except InputError as error:
            raise InputError(error.message, "give it with inputs: FILE.npz at the network in the jobs file") from None
    else:
        arrays = read_inputs(given, graph, prepared.batch_size)
    return [arrays[tensor.name] for tensor in prepared.inputs]


def _difference(prepared: Prepared, folder: Path) -> dict[str, Any]:
    """Return how far answers are from what the whole network answers, by its largest magnitude, and what is allowed.

    The measure is that of ``edgetune schedule prepare``; the difference is ``None`` for a network that answers by
    chance.
    """
    import onnx

    from edgetune.workloads.partition.check import difference_between, tolerance_of

    graph = onnx.load(str(prepared.folder / prepared.whole["external"]), load_external_data=False)
    references = _references(prepared, folder)
    answers = read(folder, "answer", len(prepared.outputs))
    difference = None if references is None else difference_between(answers, references)
    return {"difference": difference, "allowed": tolerance_of(graph)}


def _references(prepared: Prepared, folder: Path) -> list[Any] | None:
    """Return what the whole network answers, from a file where that is of this sample; ``None`` if it is by chance."""
    import onnxruntime as ort

    from edgetune.workloads.partition.check import difference_between

    names = [tensor.name for tensor in prepared.inputs]
    if _changed_ns(folder, "reference") <= _changed_ns(folder, "input"):
        fed = dict(zip(names, read(folder, "input", len(names)), strict=True))
        session = open_session(prepared.folder / prepared.whole["external"], ort.SessionOptions())
        outputs = [tensor.name for tensor in prepared.outputs]
        made = session.run(outputs, fed)
        if prepared.difference is None and difference_between(session.run(outputs, fed), made) != 0:
            return None
        write(folder, "reference", made)
    return read(folder, "reference", len(prepared.outputs))


def _changed_ns(folder: Path, what: str) -> int:
    """Return when the last of some files was written; 0 where there is none."""
    return max((path.stat().st_mtime_ns for path in folder.glob(f"{what}-*.npy")), default=0)


if __name__ == "__main__":
    main(sys.argv[1:])

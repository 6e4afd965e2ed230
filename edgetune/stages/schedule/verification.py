"""Checks around a run for real: files before it, answers after it, both outside the memory limit.

The first answer of every network must be what the whole network answers to the same sample, by the measure with which
``edgetune schedule prepare`` compared the layers (``workloads.partition.check``): layers add up in another order, and
that is all that may differ. A process of its own makes the samples and runs the whole networks: the command ``sample``
writes what a network is fed, ``difference`` runs the whole network on it and compares.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from edgetune.artifacts.scratch_folder import scratch_folder
from edgetune.errors import InputError, PartialError
from edgetune.processes.child import Child
from edgetune.processes.messages import serve
from edgetune.stages.schedule.exchange import read, write
from edgetune.stages.schedule.executor import open_session
from edgetune.workloads.prepared import Prepared, check_file, open_prepared

_REFERENCE = "edgetune.stages.schedule.verification"
_PATIENCE_S = 600.0


class Verification:
    """Samples, hashes and references of networks, made once for all runs of them; to be entered with ``with``.

    Args:
        seed: Of random samples.
    """

    def __init__(self, *, seed: int = 0) -> None:
        self._seed = seed
        self._opened = contextlib.ExitStack()
        self._child: Child | None = None
        self._root = Path()
        self._folders: dict[str, Path] = {}
        self._changed_ns: dict[Path, int] = {}
        self._allowed: dict[str, float] = {}

    def __enter__(self) -> Verification:
        self._root = self._opened.enter_context(scratch_folder())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rest()
        self._opened.close()

    def rest(self) -> None:
        """End the process that runs whole networks: while others are timed it would hold memory."""
        if self._child is not None:
            self._child.close()
        self._child = None

    def checked(self, prepared: Prepared, files: Sequence[str]) -> dict[str, int]:
        """Return when each file was changed last, ns, having compared its hash, unless that was done for this change.

        Raises:
            InputError: a file is not what was prepared.
        """
        changed_ns: dict[str, int] = {}
        for name in files:
            path = prepared.folder / name
            with contextlib.suppress(OSError):
                if self._changed_ns.get(path) == path.stat().st_mtime_ns:
                    changed_ns[name] = self._changed_ns[path]
            if name not in changed_ns:
                changed_ns[name] = self._changed_ns[path] = check_file(prepared, name)
        return changed_ns

    def sample(self, network: str, prepared: Prepared, inputs: Path | None) -> Path:
        """Return the folder with a network's sample, having made it unless it is there.

        Args:
            network: Its name.
            prepared: The prepared network.
            inputs: ``.npz`` with a sample; random without one.

        Raises:
            InputError: no random sample can be made, or the file does not fit.
        """
        if network not in self._folders:
            folder = self._root / str(len(self._folders))
            folder.mkdir()
            given = None if inputs is None else str(inputs)
            self._ask("sample", prepared, folder, inputs=given, seed=self._seed)
            self._folders[network] = folder
        return self._folders[network]

    def difference(self, network: str, prepared: Prepared) -> float | None:
        """Return the difference between the first answer of a network and that of the whole network.

        ``None`` where there was none, or the whole network answers by chance.

        Raises:
            InputError: the whole network cannot be run.
        """
        folder = self._folders[network]
        if not (folder / "answer-0.npy").exists():
            return None
        compared = self._ask("difference", prepared, folder)
        self._allowed[network] = compared["allowed"]
        for answer in folder.glob("answer-*.npy"):
            answer.unlink()
        difference: float | None = compared["difference"]
        return difference

    def refuse(self, differences: Mapping[str, float]) -> None:
        """Refuse answers that are not those of the whole network.

        Args:
            differences: From ``difference``, by network.

        Raises:
            PartialError: of one network at least.
        """
        wrong = {name: by for name, by in differences.items() if not by <= self._allowed[name]}
        if wrong:
            said = ", ".join(
                f"{name} by {by:.2g} of its largest, {self._allowed[name]:g} allowed" for name, by in wrong.items()
            )
            raise PartialError(
                f"answers differ from those of the whole network: {said}",
                "do not use answers of this run; prepare it again: edgetune schedule prepare --fresh --optimise basic",
            )

    def _ask(self, command: str, prepared: Prepared, folder: Path, **more: object) -> dict[str, Any]:
        asked = {"command": command, "prepared": str(prepared.folder), "folder": str(folder), **more}
        if self._child is None:
            self._child = Child(_REFERENCE)
        try:
            return self._child.ask(asked, deadline_s=time.monotonic() + _PATIENCE_S)
        except TimeoutError:
            raise PartialError(
                f"the whole network of {prepared.folder} did not answer within {_PATIENCE_S:.0f} s",
                "see whether the machine swaps; rows are kept",
            ) from None


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

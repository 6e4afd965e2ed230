"""What a run for real is given, made outside its memory limit: checked files, and a sample for each network.

A process of its own makes the samples and ends before the run: its libraries hold no memory while networks are timed.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgetune.errors import InputError
from edgetune.processes.child import Child
from edgetune.stages.schedule.executor import write_sample
from edgetune.workloads.prepared import Prepared, check_file, open_prepared

_SAMPLES = "edgetune.stages.schedule.run_inputs:make_sample"


class RunInputs:
    """Hashes and samples of networks, made once for all runs of them.

    Args:
        root: The folder of the samples.
        seed: Of random samples.
    """

    def __init__(self, root: Path, *, seed: int = 0) -> None:
        self._root, self._seed = root, seed
        self._folders: dict[str, Path] = {}
        self._changed_ns: dict[Path, int] = {}

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

    def samples(self, networks: Sequence[tuple[str, Prepared, Path | None]]) -> Mapping[str, Path]:
        """Return the folder with each network's sample, by name, having made those that are not there.

        Args:
            networks: The name of each, its folder, and the ``.npz`` with its sample; random without one.

        Raises:
            InputError: no random sample can be made, or the file does not fit.
        """
        missing = [network for network in networks if network[0] not in self._folders]
        if missing:
            with contextlib.closing(Child(_SAMPLES)) as child:
                for name, prepared, inputs in missing:
                    folder = self._root / str(len(self._folders))
                    folder.mkdir(exist_ok=True)
                    given = None if inputs is None else str(inputs)
                    command = {"prepared": str(prepared.folder), "folder": str(folder), "inputs": given}
                    child.ask({"command": "sample", **command, "seed": self._seed}, deadline_s=math.inf)
                    self._folders[name] = folder
        return self._folders


def make_sample(command: Mapping[str, Any]) -> dict[str, Any]:
    """Write the sample of a network; a function for ``processes.messages``."""
    prepared = open_prepared(Path(command["prepared"]))
    write_sample(Path(command["folder"]), sample_of(prepared, command["inputs"], seed=command["seed"]))
    return {}


def sample_of(prepared: Prepared, inputs: str | None, *, seed: int) -> list[Any]:
    """Return an array for each input of a network, in its order.

    Args:
        prepared: Its folder.
        inputs: The ``.npz`` with the sample; random without one.
        seed: Of a random sample.

    Raises:
        InputError: no random sample can be made, or the file does not fit.
    """
    import onnx

    from edgetune.workloads.network_inputs import random_inputs, read_inputs

    graph = onnx.load(str(prepared.folder / prepared.whole["external"]), load_external_data=False)
    if inputs is None:
        try:
            arrays = random_inputs(graph, seed=seed)
        except InputError as error:
            raise InputError(error.message, "give it with inputs: FILE.npz at the network in the jobs file") from None
    else:
        arrays = read_inputs(inputs, graph, prepared.batch_size)
    return [arrays[tensor.name] for tensor in prepared.inputs]

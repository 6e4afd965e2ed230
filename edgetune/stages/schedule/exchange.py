"""Samples that come into the process which runs networks, as files that are made outside the memory limit.

A user's handler may make the samples instead, and takes the answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgetune.errors import InputError
from edgetune.stages.schedule.executor import one_line
from edgetune.workloads.prepared import Prepared, TensorSpec

if TYPE_CHECKING:
    from edgetune.workloads.python_file import HandlerFile

Arrays = Mapping[str, Any]


def write_sample(folder: Path, arrays: Sequence[Any]) -> None:
    """Write an array for each input of a network, as input-0.npy, input-1.npy, ...

    Raises:
        InputError: the folder cannot be written.
    """
    try:
        for place, array in enumerate(arrays):
            np.save(folder / f"input-{place}.npy", array, allow_pickle=False)
    except OSError as error:
        raise InputError(f"cannot write {folder}: {error.strerror or error}", "free space there") from None


def read_sample(folder: Path, count: int) -> list[Any]:
    """Return the arrays that ``write_sample`` wrote, mapped.

    Raises:
        InputError: a file is missing or damaged.
    """
    try:
        return [np.load(folder / f"input-{place}.npy", mmap_mode="r", allow_pickle=False) for place in range(count)]
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read input in {folder}: {one_line(error)}", "run the same command again") from None


class Exchange:
    """Samples and answers of the networks of a run.

    Args:
        folders: The folder of each network's files.
        prepared: The prepared networks, by name.
        handlers: Code of the user, for networks that have some.
    """

    def __init__(
        self, folders: Mapping[str, Path], prepared: Mapping[str, Prepared], handlers: Mapping[str, HandlerFile]
    ) -> None:
        self._folders, self._prepared, self._handlers = folders, prepared, handlers
        self._samples: dict[str, Arrays] = {}

    def sample(self, request: int, network: str) -> Arrays:
        """Return the arrays that a request feeds to its network; called once, by a worker.

        Raises:
            EdgetuneError: no sample can be made or read.
        """
        tensors = self._prepared[network].inputs
        handler = self._handlers.get(network)
        if handler is not None and handler.inputs is not None:
            return _sample(handler.inputs(request, None), tensors)
        if network not in self._samples:
            arrays = read_sample(self._folders[network], len(tensors))
            self._samples[network] = dict(zip((tensor.name for tensor in tensors), arrays, strict=True))
        return self._samples[network]

    def take(self, request: int, network: str, outputs: Arrays) -> None:
        """Give an answer to the handler, where there is one; called in the loop's thread, before the next task."""
        handler = self._handlers.get(network)
        if handler is not None and handler.outputs is not None:
            handler.outputs(request, None, {name: _of_sample(array) for name, array in outputs.items()})


def _of_sample(array: Any) -> Any:
    """Return the answer to a sample: the first of its batch, or a number without a batch dimension."""
    return array[0] if np.ndim(array) else array


def _sample(given: Any, tensors: Sequence[TensorSpec]) -> Arrays:
    """Return the sample of a handler as the network takes it: repeated to fill its batch.

    Raises:
        InputError: the sample lacks an input, or one has another shape or type.
    """
    made: dict[str, Any] = {}
    for tensor in tensors:
        if not isinstance(given, Mapping) or tensor.name not in given:
            raise InputError(f"inputs() returned no {tensor.name!r}", "return an array for each input of the network")
        array = np.asarray(given[tensor.name])
        if array.dtype != np.dtype(tensor.dtype) or array.shape != tensor.shape[1:]:
            raise InputError(
                f"inputs() returned {tensor.name!r} as {array.dtype} of shape {list(array.shape)}, "
                f"the network takes {tensor.dtype} of shape {list(tensor.shape[1:])}",
                "convert it, and leave the dimension of the batch out",
            )
        made[tensor.name] = np.ascontiguousarray(np.broadcast_to(array, tensor.shape))
    return made

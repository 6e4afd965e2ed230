"""Runs minibatches in the child process: an inference server that pads batches, a training session with a checkpoint.

    requests 7 8 9 --inputs()--> [ 7 | 8 | 9 | 7 ] --network--> outputs()
                                             padding

A request that spoils its minibatch fails alone: the others are run again, one by one. A checkpoint is whole or absent.
"""

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from edgetune.artifacts.files import writing
from edgetune.artifacts.output_file import note
from edgetune.errors import InputError
from edgetune.workloads.torch_required import require_accelerator, require_torch

Arrays = Mapping[str, Any]
"""NumPy arrays by the name of the network's input or output."""

InputsOf = Callable[[int, str | None], Mapping[str, Any]]
OutputsOf = Callable[[int, str | None, Arrays], object]


class InferenceServer:
    """A loaded network and its feed.

    Args:
        run: Given the network's inputs, returns its outputs; raises where it fails.
        feed: The inputs of one minibatch, which are written over; those whose first dimension is not the batch stay.
        output_names: Of the network, in the order of ``run``.
        batch_size: Requests per minibatch.
        inputs: Given a request and its line, returns one sample for each input of the network.
        outputs: Given a request, its line and one sample of each output.
        samples: Arrays of n samples by input: request i takes sample i modulo n.
    """

    def __init__(
        self,
        run: Callable[[Arrays], Sequence[Any]],
        feed: Arrays,
        output_names: Sequence[str],
        batch_size: int,
        *,
        inputs: InputsOf | None = None,
        outputs: OutputsOf | None = None,
        samples: Arrays | None = None,
    ) -> None:
        self._run, self._feed, self._output_names = run, feed, output_names
        self._batch_size, self._inputs, self._outputs, self._samples = batch_size, inputs, outputs, samples
        self._batched = {name: array for name, array in feed.items() if array.shape[:1] == (batch_size,)}

    def answer(self, requests: Sequence[int], lines: Sequence[str | None]) -> list[tuple[int, str]]:
        """Answer requests, at most as many as make a minibatch; return those that failed, with the reason."""
        asked = list(zip(requests, lines, strict=True))
        failed = self._fill(asked)
        left = [(request, line) for request, line in asked if request not in failed]
        if left:
            try:
                outputs = self._run(self._feed)
            except Exception as error:
                failed |= self._one_by_one(left, error)
            else:
                failed |= self._hand_on(left, outputs)
        return list(failed.items())

    def _fill(self, asked: Sequence[tuple[int, str | None]]) -> dict[int, str]:
        """Write samples into the feed, padded with the first; return the requests whose inputs failed."""
        if self._inputs is None and self._samples is None:
            return {}
        failed: dict[int, str] = {}
        slot = 0
        for request, line in asked:
            try:
                self._put(slot, self._sample(request, line))
                slot += 1
            except Exception as error:
                failed[request] = describe_error(error, "inputs")
        if slot:
            for array in self._batched.values():
                array[slot:] = array[0]
        return failed

    def _sample(self, request: int, line: str | None) -> Mapping[str, Any]:
        if self._inputs is not None:
            return self._inputs(request, line)
        samples = self._samples or {}
        return {name: samples[name][request % len(samples[name])] for name in self._batched}

    def _put(self, slot: int, sample: Mapping[str, Any]) -> None:
        """Write one sample into the feed.

        Raises:
            ValueError: it lacks an input, has one that the network has not, or one of another shape.
        """
        if set(sample) != set(self._batched):
            raise ValueError(f"inputs {sorted(sample)} given, the network takes {sorted(self._batched)}")
        for name, array in self._batched.items():
            shape = getattr(sample[name], "shape", array.shape[1:])
            if shape != array.shape[1:]:
                raise ValueError(f"{name} is of shape {list(shape)}, the network takes {list(array.shape[1:])}")
            array[slot] = sample[name]

    def _one_by_one(self, asked: Sequence[tuple[int, str | None]], error: Exception) -> dict[int, str]:
        """Run each request alone, the whole batch filled with it; return those that failed again."""
        if len(asked) == 1 or (self._inputs is None and self._samples is None):
            return dict.fromkeys((request for request, _ in asked), describe_error(error, "the network"))
        kept = {name: array[: len(asked)].copy() for name, array in self._batched.items()}
        failed: dict[int, str] = {}
        for slot, (request, line) in enumerate(asked):
            for name, array in self._batched.items():
                array[:] = kept[name][slot]
            try:
                failed |= self._hand_on([(request, line)], self._run(self._feed))
            except Exception as again:
                failed[request] = describe_error(again, "the network")
        return failed

    def _hand_on(self, asked: Sequence[tuple[int, str | None]], outputs: Sequence[Any]) -> dict[int, str]:
        """Pass each request its sample of the outputs; return the requests whose handler failed."""
        if self._outputs is None:
            return {}
        failed: dict[int, str] = {}
        named = dict(zip(self._output_names, outputs, strict=True))
        for slot, (request, line) in enumerate(asked):
            try:
                self._outputs(request, line, {name: self._of(slot, array) for name, array in named.items()})
            except Exception as error:
                failed[request] = describe_error(error, "outputs")
        return failed

    def _of(self, slot: int, array: Any) -> Any:
        return array[slot] if getattr(array, "shape", ())[:1] == (self._batch_size,) else array


def describe_error(error: BaseException, what: str) -> str:
    """Return the error in one line."""
    message = getattr(error, "message", None)  # of errors that are worded already
    if isinstance(message, str):
        return message
    return f"{what} raised {type(error).__name__}: {' '.join(str(error).split())[:300] or 'no message'}"


_HINT = "free space, or name another file"


class TrainingSession:
    """A loaded training.

    Args:
        step: Trains on one minibatch; a number that it returns is the loss.
        save: Writes the trained state to a path; ``None`` where it cannot.
        checkpoint: Path of the checkpoint; ``None`` where none is wanted.

    Raises:
        InputError: no checkpoint can be written there, which is checked before the training.
    """

    def __init__(
        self, step: Callable[[], object], save: Callable[[str], object] | None, checkpoint: Path | None
    ) -> None:
        self._step, self._save, self._checkpoint = step, save, checkpoint
        self.diverged: str | None = None
        if checkpoint is not None:
            with writing(checkpoint, _HINT):
                note(checkpoint).try_folder()
        self.steps = 0
        """Minibatches trained on."""

    def train(self) -> float | None:
        """Train on one minibatch and return its loss, if the workload returns one."""
        loss = _number(self._step())
        self.steps += 1
        if loss is not None and not math.isfinite(loss) and self.diverged is None:
            self.diverged = f"training diverged: the loss is {loss} at step {self.steps}"
        return loss

    def save(self) -> Path | None:
        """Write the checkpoint and return where it is; an older one is replaced only by a whole one.

        Returns:
            Its path, another than asked for where another program has written that; ``None`` where none is wanted.

        Raises:
            InputError: it cannot be written, or training has diverged.
        """
        if self._checkpoint is None or self._save is None:
            return None
        if self.diverged is not None:
            raise InputError(
                f"{self.diverged}, so no checkpoint was written", "lower the learning rate, or look at the data"
            )
        with writing(self._checkpoint, _HINT) as output:
            with output.written_by_path() as path:
                self._save(str(path))
            return output.path


def _number(result: object) -> float | None:
    """Return a loss: a number, or an array of one number without dimensions, as PyTorch and NumPy have them."""
    if isinstance(result, bool):
        return None
    if isinstance(result, numbers.Real):
        return float(result)
    item = getattr(result, "item", None)
    if callable(item) and getattr(result, "ndim", None) == 0:
        return float(item())
    return None


_STREAM_PRIORITY = {True: -1, False: 0}
"""Lower values run first; see CUDA's cudaStreamCreateWithPriority and torch.cuda.Stream."""
_OWN_STREAM = "CUDAExecutionProvider"
"""The execution provider of ONNX Runtime that takes ``user_compute_stream``."""


class TenantStream:
    """The stream of a tenant that shares its process with others on a GPU; elsewhere there is none."""

    def __init__(self, command: Mapping[str, Any]) -> None:
        self._device: str = command["torch_device"]
        self._on_gpu = self._device.startswith("cuda")
        self._stream: Any = None
        if self._on_gpu and (command["shared"] or command["task"] == "train"):
            require_accelerator(self._device)
        if self._on_gpu and command["shared"]:
            self._stream = require_torch().cuda.Stream(self._device, priority=_STREAM_PRIORITY[command["urgent"]])

    def provider_options(self, providers: tuple[str, ...]) -> dict[str, str] | None:
        """Return options by which ONNX Runtime uses the stream."""
        if self._stream is None or providers[0] != _OWN_STREAM:
            return None
        return {"user_compute_stream": str(self._stream.cuda_stream)}

    def entered(self) -> AbstractContextManager[Any]:
        """Return the context in which PyTorch works on the stream."""
        return nullcontext() if self._stream is None else require_torch().cuda.stream(self._stream)

    def finishing(self, step: Callable[[], object]) -> Callable[[], object]:
        """Return ``step`` on the stream, followed by a wait for this stream only."""
        if not self._on_gpu:
            return step

        def finished() -> object:
            with self.entered():
                result = step()
            if self._stream is None:
                require_torch().cuda.synchronize(self._device)
            else:
                self._stream.synchronize()
            return result

        return finished

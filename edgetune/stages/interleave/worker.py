"""The child process of one or more tenants: ``python -m edgetune.stages.interleave.worker COMMANDS REPLIES PARENT``.

Each command names its tenant, and so does each reply; ``processes.messages`` defines the lines:

    {"command": "load", "tenant": "a", "task": "infer", "batch_size": 4, ...} -> {"ok": true, "tenant": "a", ...}
    {"command": "run", "tenant": "a", "number": 7, "requests": [3, 4], "lines": [null, null]}
                                 -> {"ok": true, "tenant": "a", "number": 7, "start_ns": ..., "end_ns": ..., ...}
    {"command": "save", "tenant": "a"}                                        -> {"ok": true, "tenant": "a", ...}

A tenant alone in its process runs on the main thread, in the order of commands. Where tenants share a process, each has
a thread, and replies come as minibatches end. Times are of CLOCK_MONOTONIC, one clock for the whole system.
"""

from __future__ import annotations

import gc
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from edgetune.artifacts.output_file import scratch_folder
from edgetune.errors import EdgetuneError, InputError
from edgetune.processes.messages import answer, decoded, encoded, pipes
from edgetune.processes.start import pin
from edgetune.processes.turn_signal import TurnSignal
from edgetune.stages.interleave.sessions import InferenceServer, TenantStream, TrainingSession, describe_error
from edgetune.visible import visible
from edgetune.workloads.onnx_file import fix_dimensions, load_model, network_batch, network_values, parse_model
from edgetune.workloads.ort_session import open_session
from edgetune.workloads.paced_script import OTHERWISE, PacedScript, open_script
from edgetune.workloads.python_file import limit_threads, open_handler, open_training
from edgetune.workloads.torch_required import require_torch
from edgetune.workloads.workload import RunOptions, Workload

_MOST_KEPT = 5
"""Batch sizes at which an inference network is held ready, as many as in Fulcrum (2025); each holds its weights."""

Command = Mapping[str, Any]


def main(arguments: list[str]) -> None:
    """Serve the commands above until their pipe ends."""
    tenants: dict[str, _Tenant] = {}
    with pipes(arguments) as (commands, replies):
        writer = _Writer(replies)
        for line in commands:
            command = decoded(line)
            name = command["tenant"]
            if name not in tenants:
                tenants[name] = _Tenant(writer) if not command["shared"] else _Threaded(writer)
            tenants[name].take(command)


class _Writer:
    """Writes replies, whole lines, from any thread."""

    def __init__(self, replies: BinaryIO) -> None:
        self._replies, self._lock = replies, threading.Lock()

    def write(self, reply: Mapping[str, Any]) -> None:
        line = encoded(reply)
        with self._lock:
            self._replies.write(line)
            self._replies.flush()


class _Tenant:
    """A loaded workload that executes commands."""

    def __init__(self, writer: _Writer) -> None:
        self._writer = writer
        self._loaded: _Inference | _Training | None = None
        self._kept: dict[tuple[int, int], _Inference] = {}
        """Inferences by batch size and threads, the newest last: returning to one takes microseconds."""
        self._save_every_s: float | None = None
        self._saved_s = time.monotonic()
        self._turn_signal: TurnSignal | None = None
        self._place = 0
        """Place of its turns in the turn signal."""

    def take(self, command: Command) -> None:
        """Execute a command and reply."""
        reply = answer(self._execute, command)
        if self._turn_signal is not None and command["command"] == "run":
            self._turn_signal.end(self._place, command["turn"])
        self._writer.write(reply)
        if command["command"] == "run":
            self._save_in_time()

    def _execute(self, command: Command) -> dict[str, Any]:
        if command["command"] == "run":
            assert self._loaded is not None
            if self._turn_signal is not None and command["after"] is not None:
                place, turn = command["after"]
                self._turn_signal.wait(self._place, place, turn, command["begin_by_ns"])
            return {"tenant": command["tenant"], "number": command["number"], **self._loaded.run(command)}
        if command["command"] == "load":
            return {"tenant": command["tenant"], **self._load(command)}
        assert isinstance(self._loaded, _Training)
        self._loaded.learning.save()
        return {"tenant": command["tenant"], "steps": self._loaded.learning.steps}

    def _load(self, command: Command) -> dict[str, Any]:
        """Load a workload; the one loaded before stays if that fails."""
        if command["cpus"]:
            pin(command["cpus"])
        if command["turn_signal"] is not None and self._turn_signal is None:
            self._turn_signal, self._place = TurnSignal(command["turn_signal"]), command["place"]
        self._save_every_s, self._saved_s = command["save_every_s"], time.monotonic()
        before = self._loaded if isinstance(self._loaded, _Training) else None
        if before is not None and before.batch_size == command["batch_size"]:  # another mode: what was learnt stays
            before.limit(command["cpus"], command["threads"])
            return {"minibatches_s": []}
        key = (command["batch_size"], command["threads"])
        if key in self._kept:
            self._loaded = self._kept[key] = self._kept.pop(key)
            return {"minibatches_s": []}
        loaded = _Inference(command) if command["task"] == "infer" else _Training(command, before)
        minibatches_s = loaded.warm_up(command["warmup"])
        self._loaded = loaded
        if isinstance(loaded, _Inference):
            self._kept[key] = loaded
            for old in list(self._kept)[:-_MOST_KEPT]:
                del self._kept[old]
        gc.unfreeze()
        gc.collect()
        gc.freeze()  # collections during the run then examine only objects that minibatches leave
        return {"minibatches_s": minibatches_s}

    def _save_in_time(self) -> None:
        """Write the checkpoint at intervals, after the reply, so that no minibatch takes longer for it."""
        now_s = time.monotonic()
        if self._save_every_s is None or now_s - self._saved_s < self._save_every_s:
            return
        self._saved_s = now_s
        if isinstance(self._loaded, _Training):
            try:
                self._loaded.learning.save()
            except EdgetuneError as error:  # reported when it is requested, at the end
                print(visible(error.message), file=sys.stderr)  # noqa: T201 -- into the log of this process


class _Threaded(_Tenant):
    """A tenant that shares its process with others."""

    def __init__(self, writer: _Writer) -> None:
        super().__init__(writer)
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def take(self, command: Command) -> None:
        """Pass a command to the thread."""
        self._commands.put(command)

    def _serve(self) -> None:
        while True:
            super().take(self._commands.get())


class _Inference:
    """A network on ONNX Runtime."""

    def __init__(self, command: Command) -> None:
        stream = TenantStream(command)
        workload, batch_size = Workload.from_plain(command["workload"]), command["batch_size"]
        options = RunOptions.from_plain(command)
        session, feed = open_session(
            workload, batch_size, options, configure=_patient,
            provider_options=stream.provider_options(options.ort_providers),
        )  # fmt: skip
        feed = {name: array.copy() for name, array in feed.items()}
        samples = None if command["inputs"] is None else _samples(command["inputs"], feed)
        inputs, outputs = (None, None) if command["handler"] is None else open_handler(Path(command["handler"]))
        names = [output.name for output in session.get_outputs()]
        self._stream, self._made_up = stream, inputs is not None
        self._reference, self._batch_size = workload.reference, batch_size
        self._run_once: Callable[[], object] = lambda: session.run(None, feed)
        self._answering = InferenceServer(
            lambda fed: session.run(None, fed), feed, names, batch_size, inputs=inputs, outputs=outputs, samples=samples
        )

    def warm_up(self, minibatches: int) -> list[float]:
        """Run some minibatches and return their durations, s.

        Raises:
            InputError: the network does not run at this batch size. Where the user's code makes the inputs, random
                ones prove nothing.
        """
        try:
            return [_timed(self._run_once) for _ in range(minibatches)]
        except Exception as error:
            if self._made_up:
                return []
            said = " ".join(str(error).split())[:300]
            raise InputError(
                f"{self._reference} does not run at batch size {self._batch_size}: {said}",
                "try another batch size, and give real inputs with --inputs FILE.npz if it looks them up",
            ) from None

    def run(self, command: Command) -> dict[str, Any]:
        """Answer requests; without any, infer a minibatch of the samples that are always there."""
        requests = command["requests"]
        if not requests:
            return self._infer()
        start_ns = time.monotonic_ns()
        failed = self._answering.answer(requests, command.get("lines") or [None] * len(requests))
        end_ns = time.monotonic_ns()
        failure = failed[0][1] if len(failed) == len(requests) else None
        return {"start_ns": start_ns, "end_ns": end_ns, "failed": failed, "failure": failure, "lost": False}

    def _infer(self) -> dict[str, Any]:
        failure, start_ns = None, time.monotonic_ns()
        try:
            self._run_once()
        except Exception as error:
            failure = describe_error(error, "the network")
        end_ns, lost = time.monotonic_ns(), failure is not None
        return {"start_ns": start_ns, "end_ns": end_ns, "failed": [], "failure": failure, "lost": lost}


class _Training:
    """A training on PyTorch, or of a Python file; it continues the one loaded before at another batch size."""

    def __init__(self, command: Command, before: _Training | None) -> None:
        self._stream, self.batch_size = TenantStream(command), command["batch_size"]
        checkpoint = None if command["checkpoint"] is None else Path(command["checkpoint"])
        self._failure: str | None = None
        self._trainer: Any = None
        self._file: Any = None
        self._script: PacedScript | None = None
        make = {"python": self._of_file, "command": self._of_script}.get(command["workload"]["kind"], self._of_network)
        with self._stream.entered():
            step, save = make(command, before)
        self.learning = TrainingSession(self._stream.finishing(step), save, checkpoint)
        if before is not None:
            self.learning.steps = before.learning.steps

    def _of_file(self, command: Command, before: _Training | None) -> tuple[Callable[[], object], Any]:
        workload = Workload.from_plain(command["workload"])
        assert workload.path is not None
        if before is not None and (before._file.save is None or before._file.load is None):
            raise InputError(
                f"{workload.reference} cannot go on at another batch size: it defines no save(path) and load(path)",
                "define both, or keep its batch size",
            )
        with nullcontext() if before is None else _kept(before) as kept:
            self._file = open_training(workload.path, command["batch_size"], threads=command["threads"])
            start = kept or command["resume"]
            if start is not None:
                if self._file.load is None:
                    raise InputError(
                        f"{workload.reference} defines no load(path)",
                        "define it as examples/train_tiny.py does, or leave --resume out",
                    )
                self._file.load(start)
        if command["checkpoint"] is not None and self._file.save is None:
            raise InputError(
                f"{workload.reference} defines no save(path), so there is no checkpoint to write",
                "define it as examples/train_tiny.py does, or leave --checkpoint out",
            )
        return self._file.step, self._file.save

    def _of_script(self, command: Command, before: _Training | None) -> tuple[Callable[[], object], Any]:
        if before is not None:
            raise InputError("a script cannot go on at another batch size", f"keep its batch size, or {OTHERWISE}")
        self._script = open_script(Workload.from_plain(command["workload"]), command["batch_size"], command["threads"])
        return self._script.step, None

    def limit(self, cpus: Sequence[int], threads: int) -> None:
        """Take other CPUs, and as many threads as the libraries of this process can still be told."""
        limit_threads(threads)
        if self._script is not None and cpus:
            self._script.pin(cpus)

    def _of_network(self, command: Command, before: _Training | None) -> tuple[Callable[[], object], Any]:
        torch = require_torch()
        torch.set_num_threads(command["threads"])
        from edgetune.workloads import torch_graph
        from edgetune.workloads.torch_module import trainer, with_trained

        workload, resume = Workload.from_plain(command["workload"]), command["resume"]
        model = load_model(workload, weights=True) if resume is None else parse_model(Path(resume))
        size, dimensions = command["batch_size"], command["dimensions"]
        fixed = fix_dimensions(
            model, batch_size=size, dimensions=dimensions, batch=network_batch(workload, dimensions, size)
        )
        made = trainer(fixed, command["batch_size"], device=command["torch_device"], seed=command["seed"],
                       values=network_values(workload, dimensions))  # fmt: skip
        if before is not None:
            made.continue_from(before._trainer)
        hollow = torch_graph.without_data(model, {name for name, _ in made.module.weights()})
        self._trainer = made

        def save(path: str) -> None:
            Path(path).write_bytes(with_trained(hollow, made.module).SerializeToString())

        return made.step, save

    def warm_up(self, minibatches: int) -> list[float]:
        """Run some minibatches and return their durations, s; a network forgets them, a Python file keeps them.

        Raises:
            InputError: a step fails.
        """
        if self._trainer is None:
            return [_timed(self.learning.train) for _ in range(minibatches)]
        with self._trainer.unchanged():
            return [_timed(self._trainer.step) for _ in range(minibatches)]

    def run(self, command: Command) -> dict[str, Any]:  # noqa: ARG002 -- as inference
        """Train on one minibatch; after a failure all fail."""
        loss = None
        start_ns = time.monotonic_ns()
        if self._failure is None:
            try:
                loss = self.learning.train()
                self._failure = self.learning.diverged
            except Exception as error:
                self._failure = describe_error(error, "step()")
        end_ns = time.monotonic_ns()
        lost = self._failure is not None
        return {"start_ns": start_ns, "end_ns": end_ns, "loss": loss, "failure": self._failure, "lost": lost}


def _patient(options: Any) -> None:
    """Make the threads of ONNX Runtime sleep between operators: spinning, they use the cores of other tenants."""
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")


def _samples(path: str, feed: Mapping[str, Any]) -> dict[str, Any]:
    """Return all samples of a file that was already checked for one minibatch."""
    import numpy as np

    with np.load(path, allow_pickle=False) as stored:
        return {name: stored[name].astype(array.dtype) for name, array in feed.items() if stored[name].ndim > 0}


@contextmanager
def _kept(training: _Training) -> Iterator[str]:
    """Save the state of a training file in a scratch file, which is removed when the context ends."""
    with scratch_folder() as folder:
        path = str(folder / "learnt.pt")
        training._file.save(path)
        yield path


def _timed(step: Callable[[], object]) -> float:
    begun_ns = time.monotonic_ns()
    step()
    return (time.monotonic_ns() - begun_ns) / 1e9


if __name__ == "__main__":
    main(sys.argv[1:])

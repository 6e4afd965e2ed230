"""The process that runs networks under a memory limit: the loop, a policy and the live backend, and nothing else.

    parent                                   this process
      puts it into its control group
      {"command": "enter"}             ->    begins anew, so that all of its memory counts
      {"command": "run", ...}          ->    makes sessions
                                       <-    {"event": "ready", "base_bytes": ...}     begins; a rehearsal ends here
                                       <-    {"event": "records", ...}                 again and again
      SIGTERM, SIGINT                  ->    finishes what runs, gives up the rest
                                       <-    {"event": "done", ...}

Commands and replies are lines of JSON on pipes (``processes.messages``). The modules that run networks are imported
once the process has begun anew.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from edgetune.processes.families import anonymous_bytes, peak_bytes
from edgetune.processes.messages import answer, decoded, encoded, pipes
from edgetune.processes.start import python_command
from edgetune.stages.schedule.budget import MemoryInUse, left_bytes
from edgetune.stages.schedule.network import Layer, LayeredNetwork, least_budget_bytes
from edgetune.stages.schedule.requests import Request
from edgetune.units import NS

Command = Mapping[str, Any]

_ENTERED = "entered"
_STOP = (signal.SIGTERM, signal.SIGINT)
_LOOK_NS = NS // 10
"""Time between looks for records to send while nothing happens."""
_FLUSH_NS = NS // 5
"""Time between sending records: each time wakes the parent, on cores that networks need."""


def main(arguments: list[str]) -> None:
    """Run one command.

    Args:
        arguments: Descriptors of the pipes and the parent, see ``processes.child``; and whether it began anew.
    """
    if arguments[-1] != _ENTERED:
        while os.read(int(arguments[0]), 1) not in (b"\n", b""):
            pass
        command = python_command(__spec__.name, *arguments, _ENTERED)
        os.execv(command[0], command)
    with pipes(arguments[:3]) as (commands, replies):
        replies.write(encoded(answer(lambda command: _Run(command, replies).run(), decoded(commands.readline()))))


class _Run:
    """One run.

    Args:
        command: The command that ``live_run`` sends.
        replies: Receives the records.
    """

    def __init__(self, command: Command, replies: BinaryIO) -> None:
        self._command, self._replies = command, replies
        self._pending: list[Any] = []
        self._loop: Any = None
        self._sent_ns = 0
        self._stopping = False
        self._memory = MemoryInUse(command["usage"])

    def run(self) -> dict[str, Any]:
        """Run it and return the last reply."""
        from edgetune.serving.clock import Supervision
        from edgetune.stages.schedule.live import LiveTaskBackend
        from edgetune.stages.schedule.loop import ScheduleLoop
        from edgetune.stages.schedule.policies import POLICIES
        from edgetune.stages.schedule.policies.policy import taken_by
        from edgetune.stages.schedule.state import Parallelism

        command, workers = self._command, self._command["workers"]
        policy = POLICIES[command["policy"]](**command["options"])
        backend = LiveTaskBackend(*_open_networks(command), workers=workers)
        networks = taken_by(policy, {each["name"]: network_from(each) for each in command["networks"]})
        requests = [request_from(each) for each in command["requests"]]
        asked = {} if policy.whole else {request.network: networks[request.network] for request in requests}
        ready = self._ready(asked)
        if command["rehearse"]:
            backend.close()
            return {**ready, "decisions": 0, "decisions_s": 0.0}
        loop = self._loop = ScheduleLoop(
            policy, backend, networks, requests, budget_bytes=ready["budget_bytes"], parallelism=Parallelism(workers),
            supervision=Supervision(self._stopped, _LOOK_NS, self._note),
        )  # fmt: skip

        def stop(*_: object) -> None:
            self._stopping = True
            backend.wake()

        for number in _STOP:
            signal.signal(number, stop)
        self._reply(ready)
        try:
            backend.begin()
            loop.run()
        finally:
            self._flush()
            for number in _STOP:  # what it would wake is gone, and the last reply is still to be sent
                signal.signal(number, signal.SIG_IGN)
            backend.close()
        figures = {"decisions": loop.overhead.decisions, "decisions_s": loop.overhead.decisions_s}
        return {"event": "done", "peak_bytes": peak_bytes(), "stopped": self._stopping, **figures}

    def _ready(self, asked: Mapping[str, LayeredNetwork]) -> dict[str, Any]:
        """Return the memory of this process before anything is loaded, and the budget, which is the rest.

        Raises:
            InfeasibleError: a network that is asked for does not fit into the rest, or there is none.
        """
        gc.collect()
        gc.freeze()  # what is here stays: collections during the run look at what it makes
        base_bytes = self._memory.bytes()
        least_bytes = {name: least_budget_bytes(network) for name, network in asked.items()}
        limit_bytes, charged = self._command["limit_bytes"], self._memory.charged
        return {
            "event": "ready", "base_bytes": base_bytes, "base_anonymous_bytes": anonymous_bytes(),
            "budget_bytes": left_bytes(limit_bytes, base_bytes, least_bytes, charged=charged),
        }  # fmt: skip

    def _stopped(self) -> bool:
        now_ns = time.monotonic_ns()
        if self._pending and now_ns - self._sent_ns >= _FLUSH_NS:
            self._sent_ns = now_ns
            self._flush()
        return self._stopping

    def _note(self, record: Any) -> None:
        self._pending.append([type(record).__name__, *_plain(record), self._memory.bytes()])

    def _flush(self) -> None:
        """Send the records, and forget them."""
        self._reply({"event": "records", "records": self._pending})
        self._pending.clear()
        self._loop.tasks.clear()
        self._loop.requests.clear()

    def _reply(self, event: Command) -> None:
        self._replies.write(encoded({"ok": True, **event}))
        self._replies.flush()


def _open_networks(command: Command) -> tuple[dict[str, Any], Any]:
    """Return a runnable for each network, and their samples."""
    import onnxruntime as ort

    from edgetune.stages.schedule.executor import PreparedLayers, Samples, WholeNetwork
    from edgetune.workloads.prepared import check_runtime, open_prepared, processor_kind

    ort.set_default_logger_severity(4)  # an error is an exception
    runnables: dict[str, Any] = {}
    prepared, folders = {}, {}
    for each in command["networks"]:
        name, drop = each["name"], command["drop_cache"]
        prepared[name], folders[name] = open_prepared(Path(each["prepared"])), Path(each["folder"])
        if command["form"] == "layers":
            check_runtime(prepared[name], ort.__version__, processor_kind())
            runnables[name] = PreparedLayers(prepared[name], each["changed_ns"], drop_cache=drop)
        else:
            runnables[name] = WholeNetwork(prepared[name], command["form"], drop_cache=drop)
    return runnables, Samples(folders, prepared)


def _plain(noun: Any) -> list[Any]:
    """Return a record's fields, its request's among them; ``dataclasses.astuple`` would copy each value."""
    values = [getattr(noun, name) for name in noun.__slots__]
    return [_plain(value) if isinstance(value, Request) else value for value in values]


def network_from(described: Command) -> LayeredNetwork:
    """Return a network, as ``dataclasses.asdict`` wrote it."""
    layers = tuple(
        Layer(**{**layer, "after": tuple(layer["after"]), "shared": tuple(map(tuple, layer["shared"]))})
        for layer in described["network"]["layers"]
    )
    return LayeredNetwork(described["name"], layers, described["network"]["input_bytes"])


def request_from(described: Sequence[Any]) -> Request:
    """Return a request, as ``dataclasses.astuple`` wrote it."""
    number, network, arrival_ns, deadline_ns, after, *more = described
    return Request(number, network, arrival_ns, deadline_ns, tuple(after), *more)


if __name__ == "__main__":
    main(sys.argv[1:])

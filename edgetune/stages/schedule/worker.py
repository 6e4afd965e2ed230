"""The process that runs networks under a memory limit: the loop, a policy and the live backend, and nothing else.

    parent                                   this process
      puts it into its control group
      {"command": "enter"}             ->    begins anew, so that all of its memory counts
      {"command": "run", ...}          ->    makes sessions
                                       <-    {"event": "ready", "base_bytes": ...}     begins; a rehearsal ends here
      {"command": "ask", ...}          ->    a request from outside
                                       <-    {"event": "records", ...}                 again and again
      SIGTERM, SIGINT                  ->    finishes what runs, gives up the rest
                                       <-    {"event": "done", ...}

Commands and replies are lines of JSON on pipes (``processes.messages``). The modules that run networks are imported
once the process has begun anew.
"""

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from edgetune.processes.families import anonymous_bytes, peak_bytes
from edgetune.processes.messages import answer, decoded, encoded, pipes
from edgetune.processes.start import python_command
from edgetune.stages.schedule.budget import MemoryInUse, MemorySensor, PressureObserver, left_bytes
from edgetune.stages.schedule.network import Layer, LayeredNetwork, least_budget_bytes
from edgetune.stages.schedule.requests import Request
from edgetune.units import NS

Command = Mapping[str, Any]

_ENTERED = "entered"
_STOP = (signal.SIGTERM, signal.SIGINT)
_LOOK_NS = NS // 10
"""Time between looks for memory pressure while nothing happens."""
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
        lines = _Lines(commands.fileno())
        replies.write(encoded(answer(lambda command: _Run(command, lines, replies).run(), lines.next())))


class _Lines:
    """Commands as they come.

    Args:
        descriptor: Of the pipe.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self.ended = descriptor, False
        self._pending = b""

    def next(self) -> Command:
        """Return the next command, having waited for it."""
        while b"\n" not in self._pending and not self.ended:
            self._fill()
        line, _, self._pending = self._pending.partition(b"\n")
        command: Command = decoded(line)
        return command

    def here(self) -> Sequence[Command]:
        """Return the commands that have come, at least one block of which is readable."""
        self._fill()
        *lines, self._pending = self._pending.split(b"\n")
        return [decoded(line) for line in lines]

    def _fill(self) -> None:
        block = os.read(self.descriptor, 1 << 16)
        self._pending += block
        self.ended = not block


class _Run:
    """One run.

    Args:
        command: The command that ``live_run`` sends.
        lines: Source of requests from outside.
        replies: Receives the records.
    """

    def __init__(self, command: Command, lines: _Lines, replies: BinaryIO) -> None:
        self._command, self._lines, self._replies = command, lines, replies
        self._pending: list[Any] = []
        self._loop: Any = None
        self._base_bytes = 0
        self._observer: Any = None
        self._sent_ns = 0
        self._stopping = False
        self._memory = MemoryInUse(command["usage"])

    def run(self) -> dict[str, Any]:
        """Run it and return the last reply."""
        from edgetune.serving.clock import Supervision
        from edgetune.stages.schedule.live import LiveTaskBackend
        from edgetune.stages.schedule.loop import ScheduleLoop
        from edgetune.stages.schedule.plan import schedule_from
        from edgetune.stages.schedule.policies import POLICIES
        from edgetune.stages.schedule.policies.policy import taken_by
        from edgetune.stages.schedule.state import Parallelism

        command = self._command
        plan = {} if command["plan"] is None else {"plan": schedule_from(command["plan"])}
        policy = POLICIES[command["policy"]](**command["options"], **plan)
        runnables, answers = _open_networks(command)
        source = _Outside(self._lines, command) if command["live"] else None
        backend = LiveTaskBackend(
            runnables, workers=command["workers"], answers=answers,
            budget=self._budget_bytes, also=[] if source is None else [self._lines.descriptor],
        )  # fmt: skip
        networks = taken_by(policy, {network.name: network for network in map(network_from, command["networks"])})
        requests = list(map(request_from, command["requests"]))
        asked = {} if policy.whole else {request.network: networks[request.network] for request in requests}
        self._settle(networks, asked)
        ready = {
            "event": "ready", "base_bytes": self._base_bytes, "base_anonymous_bytes": anonymous_bytes(),
            "budget_bytes": backend.budget_bytes(),
        }  # fmt: skip
        if command["rehearse"]:
            backend.close()
            return {**ready, "decisions": 0, "decisions_s": 0.0}
        loop = self._loop = ScheduleLoop(
            policy, backend, networks, requests, parallelism=Parallelism(command["workers"]), source=source,
            supervision=Supervision(self._stopped, _LOOK_NS, self._note),
        )  # fmt: skip
        self._watch_signals(backend.wake)
        self._reply(ready)
        backend.begin()
        try:
            loop.run()
        finally:
            self._flush()
            for number in _STOP:  # what it would wake is gone, and the last reply is still to be sent
                signal.signal(number, signal.SIG_IGN)
            backend.close()
        done = {"event": "done", "peak_bytes": peak_bytes(), "stopped": self._stopping}
        return {**done, "decisions": loop.overhead.decisions, "decisions_s": loop.overhead.decisions_s}

    def _settle(self, networks: Mapping[str, LayeredNetwork], asked: Mapping[str, LayeredNetwork]) -> None:
        """Measure the memory of this process before anything is loaded, and set the budget to the rest.

        Raises:
            InfeasibleError: a network that is asked for does not fit into the rest, or there is none.
        """
        gc.collect()
        gc.freeze()  # what is here stays: collections during the run look at what it makes
        self._base_bytes = self._memory.bytes()
        limit_bytes = self._command["limit_bytes"]
        least_of = {name: least_budget_bytes(network) for name, network in asked.items()}
        budget_bytes = left_bytes(limit_bytes, self._base_bytes, least_of, charged=self._memory.charged)
        sensor = MemorySensor(groups=[Path(group) for group in self._command["groups"]])
        least_bytes = max(map(least_budget_bytes, networks.values()), default=0)
        self._observer = PressureObserver(budget_bytes, sensor, least_bytes)

    def _budget_bytes(self, now_ns: int) -> int:
        budget_bytes: int = self._observer.budget_bytes(self._task_bytes, now_ns)
        return budget_bytes

    def _task_bytes(self) -> int:
        """Return the bytes that tasks hold in memory."""
        return self._memory.bytes() - self._base_bytes

    def _watch_signals(self, wake: Callable[[], None]) -> None:
        def stop(*_: object) -> None:
            self._stopping = True
            wake()

        for number in _STOP:
            signal.signal(number, stop)

    def _stopped(self) -> bool:
        self._flush_in_time()
        return self._stopping

    def _note(self, record: Any) -> None:
        self._pending.append([type(record).__name__, *_plain(record), self._memory.bytes()])

    def _flush_in_time(self) -> None:
        now_ns = time.monotonic_ns()
        if self._pending and now_ns - self._sent_ns >= _FLUSH_NS:
            self._sent_ns = now_ns
            self._flush()

    def _flush(self) -> None:
        """Send the records, and forget them."""
        self._reply({"event": "records", "records": self._pending})
        self._pending.clear()
        self._loop.tasks.clear()
        self._loop.requests.clear()

    def _reply(self, event: Command) -> None:
        self._replies.write(encoded({"ok": True, **event}))
        self._replies.flush()


class _Outside:
    """Requests that come from outside while the run goes on; a ``serving.sources.RequestSource``.

    Args:
        lines: Commands: ``ask`` for one more, ``end`` for no more.
        command: Of the run.
    """

    def __init__(self, lines: _Lines, command: Command) -> None:
        self._lines, self._ended = lines, False
        self._number = max((request[0] for request in command["requests"]), default=-1)

    def next_ns(self) -> int | None:
        """Return nothing: the time of the next request is unknown."""
        return None

    def take(self, now_ns: int) -> Sequence[Request]:
        """Return the requests that have come."""
        if self.ended or not select.select([self._lines.descriptor], [], [], 0)[0]:
            return []
        taken = []
        for command in self._lines.here():
            if command["command"] == "end":
                self._ended = True
            else:
                self._number += 1
                due_ns = command["due_ns"]
                deadline_ns = None if due_ns is None else now_ns + due_ns
                taken.append(request_from([self._number, command["network"], now_ns, deadline_ns, [], command["job"]]))
        return taken

    @property
    def ended(self) -> bool:
        """Whether no more will come."""
        return self._ended or self._lines.ended


def _open_networks(command: Command) -> tuple[dict[str, Any], Any]:
    """Return a runnable for each network, and the source of its samples."""
    import onnxruntime as ort

    from edgetune.stages.schedule.exchange import Exchange
    from edgetune.stages.schedule.executor import PreparedLayers, WholeNetwork
    from edgetune.workloads.prepared import check_runtime, open_prepared, processor_kind

    ort.set_default_logger_severity(4)  # an error is an exception
    runnables: dict[str, Any] = {}
    prepared, folders, handlers = {}, {}, {}
    for each in command["networks"]:
        name, drop = each["name"], command["drop_cache"]
        prepared[name], folders[name] = open_prepared(Path(each["prepared"])), Path(each["folder"])
        if each["handler"] is not None:
            from edgetune.workloads.python_file import open_handler

            handlers[name] = open_handler(Path(each["handler"]))
        if command["form"] == "layers":
            check_runtime(prepared[name], ort.__version__, processor_kind())
            runnables[name] = PreparedLayers(prepared[name], each["changed_ns"], drop_cache=drop)
        else:
            runnables[name] = WholeNetwork(prepared[name], command["form"], drop_cache=drop)
    return runnables, Exchange(folders, prepared, handlers)


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

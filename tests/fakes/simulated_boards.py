"""Boards of a fleet on a virtual clock: they answer the requests of a sweep without processes."""

import base64
import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import KIND, VERSION, Point, Profile, ProfileRow
from edgetune.artifacts.yaml_document import plain
from edgetune.stages.profiling.queue import Visit
from edgetune.workflows.fleet.client import Reply
from edgetune.workflows.fleet.task import plain_point, to_point, visits_of

HEADER = Header.new(KIND, VERSION, conditions={"device": "board", "simulated": True})


def points_of(modes: int, sizes: tuple[int, ...] = (1,)) -> list[Point]:
    clocks = [100.0 + 100.0 * mode / modes for mode in range(modes)]
    return [Point("net", "infer", size, Mode(gpu_mhz=mhz)) for mhz in clocks for size in sizes]


@dataclass
class SimulatedBoards:
    """Boards that take ``100 / gpu_mhz`` seconds times their factor for each visit, and keep a journal each."""

    slower: dict[str, float]
    points: list[Point]
    fails: Callable[[str, Visit], str] = lambda _board, _visit: ""
    kind: Callable[[str], Header] = lambda _board: HEADER
    table: bool = True
    now_s: float = 0.0
    journals: dict[str, dict[Visit, ProfileRow]] = field(default_factory=dict)
    measured: list[tuple[str, Visit]] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    lives: dict[str, int] = field(default_factory=dict)
    _due: list[tuple[float, int, Reply]] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)
    _forgotten: set[int] = field(default_factory=set)

    def clock_s(self) -> float:
        return self.now_s

    def present(self) -> dict[str, Mapping[str, Any]]:
        there = (name for name in self.slower if name not in self.gone)
        return {name: {"board": name, "worker": f"{name}-{self.lives.get(name, 0)}"} for name in there}

    def ask(self, board: str, request: Mapping[str, Any]) -> None:
        json.dumps(request)  # what cannot be sent is an error here too
        took_s, value = self._answer(board, request)
        heapq.heappush(self._due, (self.now_s + took_s, next(self._numbers), Reply(board, request, value)))

    def forget(self, board: str) -> None:
        self._due = [each for each in self._due if each[2].board != board]
        heapq.heapify(self._due)

    def replies(self, wait_s: float) -> list[Reply]:
        if not self._due or self._due[0][0] > self.now_s + wait_s:
            self.now_s += wait_s
            return []
        self.now_s = max(self.now_s, self._due[0][0])
        found = []
        while self._due and self._due[0][0] <= self.now_s:
            found.append(heapq.heappop(self._due)[2])
        return found

    def _answer(self, board: str, request: Mapping[str, Any]) -> tuple[float, dict[str, Any]]:
        if request["do"] == "describe":
            listed = [plain_point(point) for point in self.points]
            return 0.01, {"points": listed, "header": plain(self.kind(board)), "identity": "same", "estimate": None}
        journal, took_s = self.journals.setdefault(board, {}), 0.001
        order = [Visit(to_point(each["point"]), each["round"]) for each in request["visits"]]
        for visit in order:
            if visit in journal:
                continue
            if why := self.fails(board, visit):
                died = why == "died"
                self.lives[board] = self.lives.get(board, 0) + died
                return took_s + 0.1, {"error": why, "hint": "none", "died": died}
            time_s = self.slower[board] * 100 / visit.point.mode.gpu_mhz
            took_s += time_s
            self.measured.append((board, visit))
            figures = {"round": visit.round, "board": board, "power_w": 10.0, "times_s": (time_s,) * 10}
            journal[visit] = ProfileRow.at(visit.point, time_s, **figures)
        if request.get("all"):
            order = list(dict.fromkeys([*order, *journal]))
        value: dict[str, Any] = {"visits": visits_of(order)}
        if self.table and order:
            table = Profile(HEADER, tuple(journal[visit] for visit in order))
            value["table"] = base64.b64encode(table.to_bytes()).decode()
        return took_s, value

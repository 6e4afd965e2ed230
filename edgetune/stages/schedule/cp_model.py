"""A schedule as a constraint programme: intervals on a grid of whole numbers, and their bounds.

    weights 0     [load]=========================|          a load begins, ..., the last execution that uses it ends
    execution 0         [ request 0 ][ request 1 ]
    outputs 0           |====================|              ... to the end of the last layer that reads them
    memory        at any time, the sum of what is held is within the budget

Bytes are held for as long as ``memory_accounting`` holds them. Weights are shared between requests, and a copy for each
is never better: merge two copies that overlap, and drop the load of the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgetune.stages.schedule.plan import LayerSchedule, Objective, SchedulingProblem, Step, grid_ns
from edgetune.stages.schedule.requests import Request
from edgetune.stages.schedule.tasks import TaskKind, TaskRecord

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, CpSolver, IntervalVar, IntVar

_ROUNDING = 1e-6
"""The solver returns whole numbers as floats."""
_BOTH: tuple[TaskKind, ...] = ("load", "execute")


@dataclass(slots=True)
class _Execution:
    """One layer of one request."""

    start: IntVar
    end: IntVar
    interval: IntervalVar
    uses: list[IntVar] = field(default_factory=list)
    """For each load of its weights, whether it is the one that it uses."""


@dataclass(slots=True)
class _Load:
    """One of the loads that the weights of a layer may need: as many as there are requests for the network."""

    start: IntVar
    end: IntVar
    leaves: IntVar
    present: IntVar


class ScheduleCpModel:
    """Variables and constraints of one case.

    Args:
        model: An empty one.
        case: The requests and the machine.

    Durations that are not on the grid are rounded down, so that no schedule is better than the bound: every schedule
    stays one whose starts are rounded down too. The plan is then one to follow in its order only.
    """

    def __init__(self, model: CpModel, case: SchedulingProblem) -> None:
        self.model, self.case = model, case
        self._grid_ns = grid_ns(case)
        self._executions: dict[tuple[int, int], _Execution] = {}
        self._loads: dict[tuple[str, int], list[_Load]] = {}
        self._answers: dict[int, IntVar] = {}
        self._cost: Any = 0
        self._held: list[tuple[IntervalVar, int]] = []
        self._loading: list[IntervalVar] = []
        self._of = {name: [request for request in case.requests if request.network == name] for name in case.networks}
        self._horizon = self._ticks(case.requests[-1].arrival_ns if case.requests else 0) + sum(
            self._work(request.network, what) for request in case.requests for what in _BOTH
        )

    def build(self, objective: Objective) -> None:
        """Add everything."""
        requests = self.case.requests
        for request in requests:
            self._answers[request.number] = self._time(f"answer {request.number}", self._ticks(request.arrival_ns))
        for request in requests:
            self._add_executions(request)
        for name, asking in self._of.items():
            for layer, each in enumerate(self.case.networks[name].layers):
                if asking and each.weight_bytes:
                    self._add_loads(name, layer)
        for request in requests:
            self._hold_activations(request)
        self._order_equals()
        self._limit()
        self._bound_answers()
        if objective == "response":
            # arrivals are rounded up: what is subtracted must not be too little for a bound
            arrivals = sum(-(-request.arrival_ns // self._grid_ns) for request in requests)
            self._cost = sum(self._answers.values()) - arrivals
        else:
            self._cost = self._time("makespan")
            self.model.add_max_equality(self._cost, list(self._answers.values()))
        self.model.minimize(self._cost)

    def ask_for_better(self, than: float) -> None:
        """Allow schedules only that cost less, in steps of the grid, and forget what the search started from."""
        self.model.clear_hints()
        self.model.add(self._cost < round(than))

    def start_from(self, known: Sequence[TaskRecord]) -> None:
        """Give the solver a run of the same case as a hint."""
        begun: dict[tuple[str, int], int] = {}
        leaves: dict[tuple[str, int, int], int] = {}
        for task in sorted(known, key=lambda task: (task.start_ns, task.kind != "load")):
            key = (task.network, task.layer)
            if task.kind == "load":
                begun[key] = begun.get(key, -1) + 1
                if key in self._loads and begun[key] < len(self._loads[key]):
                    load = self._loads[key][begun[key]]
                    self.model.add_hint(load.start, self._ticks(task.start_ns))
                    self.model.add_hint(load.present, True)
            elif task.kind == "execute":
                execution = self._executions[task.request, task.layer]
                self.model.add_hint(execution.start, self._ticks(task.start_ns))
                for number, uses in enumerate(execution.uses):
                    self.model.add_hint(uses, number == begun.get(key, 0))
                place = (*key, begun.get(key, 0))
                leaves[place] = max(leaves.get(place, 0), self._ticks(task.end_ns))
        for (name, layer, number), at in leaves.items():
            if number < len(self._loads.get((name, layer), ())):
                self.model.add_hint(self._loads[name, layer][number].leaves, at)

    def plan(
        self, solver: CpSolver, objective: Objective, bound: float, *, proved: bool, took_s: float
    ) -> LayerSchedule:
        """Return the schedule of the solver; ``bound`` is in steps of the grid."""
        network_of = {request.number: request.network for request in self.case.requests}
        steps = [
            Step(solver.value(each.start) * self._grid_ns, "execute", network_of[number], layer, number)
            for (number, layer), each in self._executions.items()
        ]
        for (name, layer), loads in self._loads.items():
            for place, load in enumerate(loads):
                users = [
                    request.number
                    for request in self._of[name]
                    if solver.value(self._executions[request.number, layer].uses[place])
                ]
                if users:
                    first = min(users, key=lambda number: solver.value(self._executions[number, layer].start))
                    start_ns = solver.value(load.start) * self._grid_ns
                    steps.append(Step(start_ns, "load", name, layer, first, len(users)))
        unit_ns = self._grid_ns / (len(self.case.requests) if objective == "response" else 1)
        steps.sort(key=lambda step: (step.start_ns, step.kind, step.request, step.layer))
        return LayerSchedule(
            tuple(steps), objective, round(solver.objective_value) * unit_ns, math.ceil(bound - _ROUNDING) * unit_ns,
            proved, self.case.streams or self.case.workers, self.case.cores or self.case.workers, took_s,
            self.case.arrivals_ns,
        )  # fmt: skip

    def _add_executions(self, request: Request) -> None:
        """Add the layers of a request: after those that they read, after it has come, and after others' answers."""
        model, number, network = self.model, request.number, self.case.networks[request.network]
        arrival = self._ticks(request.arrival_ns)
        for index, layer in enumerate(network.layers):
            name = f"execute {number} {index}"
            start, end = self._time(name, arrival), self._time(f"{name} end", arrival)
            size = self._layer_ticks(request.network, index, "execute")
            self._executions[number, index] = _Execution(start, end, model.new_interval_var(start, size, end, name))
            for before in layer.after:
                model.add(start >= self._executions[number, before].end)
            for before in request.after if not layer.after else ():
                model.add(start >= self._answers[before])
        ends = [self._executions[number, index].end for index in range(len(network.layers))]
        model.add_max_equality(self._answers[number], ends)

    def _add_loads(self, name: str, layer: int) -> None:
        """Add the loads of the weights of a layer, one after another, and the executions that use each."""
        model, requests = self.model, self._of[name]
        executions = [self._executions[request.number, layer] for request in requests]
        weight_bytes = self.case.networks[name].layers[layer].weight_bytes
        loads: list[_Load] = []
        for place in range(len(requests)):
            load = self._add_load(name, layer, place, weight_bytes)
            for execution in executions:
                uses = model.new_bool_var(f"uses {name} {layer} {place}")
                execution.uses.append(uses)
                model.add(execution.start >= load.end).only_enforce_if(uses)
                model.add(load.leaves >= execution.end).only_enforce_if(uses)
                model.add_implication(uses, load.present)
            model.add_bool_or([execution.uses[place] for execution in executions]).only_enforce_if(load.present)
            if loads:
                model.add_implication(load.present, loads[-1].present)
                model.add(load.start >= loads[-1].leaves).only_enforce_if(load.present)
            loads.append(load)
        for execution in executions:
            model.add_exactly_one(execution.uses)
        self._loads[name, layer] = loads
        for place, load in enumerate(loads):
            self._have_wanted(load, place, requests, executions)

    def _add_load(self, name: str, layer: int, place: int, weight_bytes: int) -> _Load:
        model, what = self.model, f"load {name} {layer} {place}"
        first = self._ticks(self._of[name][0].arrival_ns)
        load = _Load(
            self._time(what, first),
            self._time(f"{what} end", first),
            self._time(f"{what} leaves", first),
            model.new_bool_var(f"{what} present"),
        )
        if place == 0:
            model.add(load.present == 1)
        size = self._layer_ticks(name, layer, "load")
        loading = model.new_optional_interval_var(load.start, size, load.end, load.present, what)
        stay = model.new_int_var(0, self._horizon, f"{what} stay")
        staying = model.new_optional_interval_var(load.start, stay, load.leaves, load.present, f"{what} staying")
        self._loading.append(loading)
        self._held.append((staying, weight_bytes))
        return load

    def _have_wanted(
        self, load: _Load, place: int, requests: Sequence[Request], executions: Sequence[_Execution]
    ) -> None:
        """Constrain a load to start after some pending request that needs it."""
        if all(request.arrival_ns == requests[0].arrival_ns and not request.after for request in requests):
            return
        wanting = []
        for request, execution in zip(requests, executions, strict=True):
            wants = self.model.new_bool_var(f"wants {request.number}")
            wanting.append(wants)
            self.model.add(load.start >= self._ticks(request.arrival_ns)).only_enforce_if(wants)
            for before in request.after:
                self.model.add(load.start >= self._answers[before]).only_enforce_if(wants)
            self.model.add_bool_or(execution.uses[place:]).only_enforce_if(wants)
        self.model.add_bool_or(wanting).only_enforce_if(load.present)

    def _hold_activations(self, request: Request) -> None:
        """Hold scratch, outputs until they have been read, and the input until all that read it have executed."""
        number, network = request.number, self.case.networks[request.network]
        readers = network.readers
        for index, layer in enumerate(network.layers):
            execution = self._executions[number, index]
            self._held.append((execution.interval, layer.scratch_bytes))
            ends = [self._executions[number, reader].end for reader in readers[index]]
            output = f"output {number} {index}"
            self._hold(layer.output_bytes, [execution.start], ends or [self._answers[number]], output)
        sources = [self._executions[number, index] for index in network.sources]
        starts, ends = [each.start for each in sources], [each.end for each in sources]
        self._hold(network.input_bytes, starts, ends, f"input {number}")

    def _hold(self, size_bytes: int, starts: Sequence[IntVar], ends: Sequence[IntVar], name: str) -> None:
        """Hold bytes from the first start to the last end."""
        if not size_bytes:
            return
        model, start, end = self.model, starts[0], ends[0]
        if len(starts) > 1:
            start = self._time(f"{name} start")
            model.add_min_equality(start, list(starts))
        if len(ends) > 1:
            end = self._time(f"{name} end")
            model.add_max_equality(end, list(ends))
        size = model.new_int_var(0, self._horizon, f"{name} size")
        self._held.append((model.new_interval_var(start, size, end, name), size_bytes))

    def _order_equals(self) -> None:
        """Answer requests that differ in nothing in the order of their numbers: one schedule of many like it."""
        awaited = {before for request in self.case.requests for before in request.after}
        last: dict[tuple[str, int, tuple[int, ...]], Request] = {}
        for request in self.case.requests:
            if request.number in awaited:
                continue
            key = (request.network, request.arrival_ns, request.after)
            if key in last:
                self.model.add(self._answers[last[key].number] <= self._answers[request.number])
            last[key] = request

    def _limit(self) -> None:
        """Keep within the budget, the workers, storage and cores."""
        model, case = self.model, self.case
        divisor = math.gcd(*(size_bytes for _, size_bytes in self._held)) or 1
        held = [(interval, size_bytes // divisor) for interval, size_bytes in self._held if size_bytes]
        model.add_cumulative([each for each, _ in held], [size for _, size in held], case.budget_bytes // divisor)
        executing = [each.interval for each in self._executions.values()]
        self._run_at_once([*executing, *self._loading], case.workers)
        for intervals, most in ((self._loading, case.streams), (executing, case.cores)):
            if most is not None and most < case.workers:
                self._run_at_once(intervals, most)

    def _run_at_once(self, intervals: Sequence[IntervalVar], most: int) -> None:
        if most == 1:
            self.model.add_no_overlap(intervals)
        else:
            self.model.add_cumulative(intervals, [1] * len(intervals), most)

    def _bound_answers(self) -> None:
        """Add constraints that follow from the others and that the solver does not see: work comes before answers.

        Let ``before[a, b]`` be that the answer of a is no later than that of b. Of the requests that come at a time or
        later, the workers do between that time and b's answer all executions of every such a, and, of the networks
        that no earlier request asks for, all loads at least once.
        """
        before, arrived = self._orders(), 0
        for place, request in enumerate(self.case.requests):
            if place and request.arrival_ns == arrived:
                continue
            arrived = request.arrival_ns
            coming = self.case.requests[place:]
            known = {each.network for each in self.case.requests[:place]}
            for last in coming:
                work: Any = 0
                for other in coming:
                    work += before[other.number, last.number] * self._work(other.network, "execute")
                for name in {each.network: None for each in coming if each.network not in known}:
                    loaded = self.model.new_bool_var(f"loaded {name} {last.number} {place}")
                    for other in coming:
                        if other.network == name:
                            self.model.add_implication(before[other.number, last.number], loaded)
                    work += loaded * self._work(name, "load")
                passed = self._answers[last.number] - self._ticks(arrived)
                self.model.add(self.case.workers * passed >= work)

    def _work(self, name: str, what: TaskKind) -> int:
        return sum(self._layer_ticks(name, layer, what) for layer in range(len(self.case.networks[name].layers)))

    def _orders(self) -> dict[tuple[int, int], Any]:
        """Return, for each pair of requests, whether the answer of the first is no later than that of the second."""
        numbers = [request.number for request in self.case.requests]
        before: dict[tuple[int, int], Any] = {(number, number): 1 for number in numbers}
        for place, one in enumerate(numbers):
            for other in numbers[place + 1 :]:
                earlier = self.model.new_bool_var(f"{one} before {other}")
                self.model.add(self._answers[one] <= self._answers[other]).only_enforce_if(earlier)
                self.model.add(self._answers[other] <= self._answers[one]).only_enforce_if(~earlier)
                before[one, other], before[other, one] = earlier, ~earlier
        return before

    def _time(self, name: str, earliest: int = 0) -> IntVar:
        return self.model.new_int_var(earliest, self._horizon, name)

    def _ticks(self, at_ns: int) -> int:
        """Return a time on the grid; earlier, if it is not on it."""
        return at_ns // self._grid_ns

    def _layer_ticks(self, name: str, layer: int, what: TaskKind) -> int:
        """Return the duration of a task, which may be none: holding less memory is a relaxation as well."""
        each = self.case.networks[name].layers[layer]
        if what == "load" and not each.weight_bytes:
            return 0
        return self._ticks(each.load_ns if what == "load" else each.execute_ns)

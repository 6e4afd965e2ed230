"""The base of all policies, and what they share: which task fits, and which runs where none does.

Policies with one rule each, and published ones: whole networks, a layer at a time, textbook orders, MASA, DeepEye.

MASA: Cox, TU Delft 2020; Cox et al., PerCom 2021. DeepEye: Mathur et al., MobiSys 2017.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, get_args

from edgetune.stages.schedule.network import LayeredNetwork, as_one_layer
from edgetune.stages.schedule.request_state import ReadySet, RequestProgress
from edgetune.stages.schedule.state import View
from edgetune.stages.schedule.tasks import LayerTask


class SchedulePolicy:
    """Chooses what starts next. It may keep notes, but depends on nothing else than the views that it was shown."""

    name: ClassVar[str]
    shares_weights: bool = False
    """Whether requests for the same network use the same weights; else each loads a copy of its own."""
    maps_weights: bool = False
    """Whether copies of the same weights count once, as they do in a real run, which maps one file for all of them;
    else each counts, as where a request reads weights into memory of its own (EdgeCaffe)."""
    whole: ClassVar[bool] = False
    """Whether it takes networks as one layer, loaded and executed as a whole (``bulk``)."""
    variants: ClassVar[Sequence[str]] = ()
    """The values of its argument ``variant``, the default first; none where it has no such argument."""
    plans_ahead: ClassVar[bool] = False
    """Whether its argument ``plan`` can be a plan that knows requests to come, which there is on a clock only."""
    overcommits: bool = False
    """Whether tasks may begin that do not fit into free memory (``masa:code``, ``deepeye:greedy``)."""

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task: an unload, or a load or an execution while a worker is idle; ``None`` to wait.

        The task is one of ``view.executions``, ``view.loads`` (also through a request's own) or ``view.unloads()``. It
        may need more than is free only where nothing runs: then there would be no progress otherwise.
        """
        raise NotImplementedError


def taken_by(policy: SchedulePolicy, networks: Mapping[str, LayeredNetwork]) -> dict[str, LayeredNetwork]:
    """Return networks as a policy takes them, whole or layer by layer: for the loop and for its backend alike."""
    return {name: as_one_layer(network) if policy.whole else network for name, network in networks.items()}


def first_fitting(tasks: Iterable[LayerTask], free_bytes: int) -> LayerTask | None:
    """Return the first task that needs no more than is free."""
    return next((task for task in tasks if task.bytes <= free_bytes), None)


def any_fits(ready: ReadySet, free_bytes: int) -> bool:
    """Return whether a task needs no more than is free; takes no longer for more tasks."""
    smallest = ready.smallest
    return smallest is not None and smallest.bytes <= free_bytes


def for_progress(view: View) -> LayerTask | None:
    """Return the task to run where nothing runs and nothing fits: the smallest execution, else the smallest load.

    Without it, weights of many networks would fill memory, none of which has all that it needs to go on.
    """
    return None if view.running else view.executions.smallest or view.loads.smallest


def in_order(view: View, states: Iterable[RequestProgress]) -> LayerTask | None:
    """Return the first task that fits: unloads of unwanted weights, then executions, then loads, by these requests."""
    unwanted = view.unwanted()
    if unwanted is not None or not view.idle_workers:
        return unwanted
    states = list(states)
    for ready, tasks_of in ((view.executions, RequestProgress.executions), (view.loads, RequestProgress.loads)):
        if any_fits(ready, view.free_bytes):
            for state in states:
                task = first_fitting(tasks_of(state), view.free_bytes)
                if task is not None:
                    return task
    return for_progress(view)


def first_request(view: View) -> RequestProgress | None:
    """Return the earliest request that is not answered."""
    return next(iter(view.requests.values()), None)


class Linear(SchedulePolicy):
    """A layer at a time: needs the least memory that a network can run in, and uses one worker.

    load 1, execute 1, unload 1, load 2, ...: of the request that came first, in the order of its layers.
    """

    name = "linear"

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task of the first request, once the last is over."""
        unwanted, state = view.unwanted(), first_request(view)
        if unwanted is not None or view.running or state is None:
            return unwanted
        return next(iter([*state.executions(), *state.loads()]), None)


class Bulk(Linear):
    """All weights are loaded, then everything is executed, then all is unloaded; the request that came first first.

    That is ``linear`` with networks of one layer, which needs the memory of a whole network.
    """

    name = "bulk"
    whole = True


class Partial(SchedulePolicy):
    """Of all that is ready and fits, the first by request, then by layer; a load before no execution of its layer.

    Loads of late layers begin as soon as a worker is idle, whether they will be needed soon or not.
    """

    name = "partial"

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits."""
        unwanted = view.unwanted()
        if unwanted is not None or not view.idle_workers:
            return unwanted
        free_bytes = view.free_bytes
        first = [
            task
            for ready in (view.executions, view.loads)
            if any_fits(ready, free_bytes) and (task := first_fitting(ready, free_bytes)) is not None
        ]
        return min(first, key=lambda task: (task.request, task.layer)) if first else for_progress(view)


class FirstComeFirstServed(SchedulePolicy):
    """The first execution that fits, else the first load that does, in the order of the requests' arrival."""

    name = "fcfs"

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, executions before loads."""
        unwanted = view.unwanted()
        if unwanted is not None or not view.idle_workers:
            return unwanted
        for ready in (view.executions, view.loads):
            if any_fits(ready, view.free_bytes):
                return first_fitting(ready, view.free_bytes)
        return for_progress(view)


class ShortestJobFirst(SchedulePolicy):
    """Requests by the time that their loads and executions still take; executions before loads."""

    name = "sjf"

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, of the request with the least left."""
        return in_order(view, sorted(view.requests.values(), key=lambda state: state.left_ns))


class ShortestNetworkFirst(SchedulePolicy):
    """Requests by the time that their network takes alone, however much of it is done; executions before loads."""

    name = "snf"

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, of the request for the shortest network."""
        return in_order(view, shortest_first(view))


def shortest_first(view: View) -> Sequence[RequestProgress]:
    """Return requests by the time that their network takes alone; in order of arrival where that is the same."""
    networks = {state.network.name: state.network for state in view.requests.values()}
    service_s = {name: network.service_s for name, network in networks.items()}
    return sorted(view.requests.values(), key=lambda state: service_s[state.network.name])


class RoundRobin(SchedulePolicy):
    """Requests take turns, a task each: longest since the last task first; executions before loads."""

    name = "rr"

    def __init__(self) -> None:
        self._turns: dict[int, int] = {}
        """The last turn of each request that had one, counted from 1."""
        self._next = 1

    def choose(self, view: View) -> LayerTask | None:
        """Return the first task that fits, of the request that has waited longest for its turn."""
        if len(self._turns) > 2 * len(view.requests):
            self._turns = {number: turn for number, turn in self._turns.items() if number in view.requests}
        waiting = sorted(view.requests.values(), key=lambda state: self._turns.get(state.request.number, 0))
        task = in_order(view, waiting)
        if task is not None and task.kind != "unload":
            self._turns[task.request] = self._next
            self._next += 1
        return task


Variant = Literal["thesis", "code", "mapped"]
"""The algorithm as it was described, as the published code behaves, or as described with copies that count once."""


class Masa(SchedulePolicy):
    """Executions before loads, each by increasing memory; the first that fits what is free.

    If nothing runs and nothing fits, the smallest of the preferred kind runs, so that there is progress.

    Args:
        variant: With ``code``, as the published code does, requests for the shortest network go first, and executions
            begin whatever memory is free (github.com/bacox/edgecaffe, ``MasaScheduler``). With ``mapped``, weights that
            several requests have mapped count once (otherwise once for each, as the thesis accounts for them), and no
            more loads run at once than storage serves: with more workers they would only share it.
    """

    name = "masa"
    variants = get_args(Variant)

    def __init__(self, variant: Variant = "thesis") -> None:
        self.overcommits, self.maps_weights = variant == "code", variant == "mapped"

    def choose(self, view: View) -> LayerTask | None:
        """Return the smallest task of the preferred kind that fits."""
        unwanted = view.unwanted()
        if unwanted is not None or not view.idle_workers:
            return unwanted
        if self.overcommits:
            return _as_published(view)
        loading = sum(task.kind == "load" for task in view.running)
        for ready in (view.executions, view.loads):
            if ready is view.loads and self.maps_weights and loading >= view.streams:
                return for_progress(view)
            if any_fits(ready, view.free_bytes):
                return ready.smallest
        return for_progress(view)


def _as_published(view: View) -> LayerTask | None:
    shortest = shortest_first(view)
    if len(view.executions):
        return next(task for state in shortest for task in state.executions())
    if any_fits(view.loads, view.free_bytes):
        return next(task for s in shortest if (task := first_fitting(s.loads(), view.free_bytes)) is not None)
    return for_progress(view)


class DeepEye(SchedulePolicy):
    """Two streams of one network, one network after another: convolutions run while fully connected layers load.

        convolutions      load 1, execute 1, load 2, execute 2, ...
        fully connected   load 6, load 7, load 8, ...              execute 6, execute 7, ...

    Layers of neither kind are in the first stream. Each stream runs one task at a time, in the order of its layers.

    Args:
        variant: With ``greedy``, as the thesis runs it (Cox 2020, sections 4.1.2, 7.2.2 and 7.4.1), all requests have
            their streams at once, the first come first, and nothing looks at the memory that is free: with several
            networks more is loaded than fits.
    """

    name = "deepeye"
    variants = ("paced", "greedy")

    def __init__(self, variant: Literal["paced", "greedy"] = "paced") -> None:
        self.overcommits = variant == "greedy"

    def choose(self, view: View) -> LayerTask | None:
        """Return the next task of a stream that is idle, where it fits or nothing looks at that."""
        unwanted, first = view.unwanted(), first_request(view)
        if unwanted is not None or first is None or not view.idle_workers:
            return unwanted
        for state in view.requests.values() if self.overcommits else [first]:
            running = [task for task in view.running if task.copy == state.copy]
            busy = {_is_fully_connected(state, task) for task in running}
            candidates = [task for dense in (False, True) if dense not in busy for task in _next(state, dense=dense)]
            fitting = [task for task in candidates if self.overcommits or task.bytes <= view.free_bytes]
            if fitting or (candidates and not view.running):
                return (fitting or candidates)[0]
        return None


def _next(state: RequestProgress, *, dense: bool) -> Sequence[LayerTask]:
    """Return the next task of a stream, if there is one: an execution that is ready, else the next load."""
    executions = [task for task in state.executions() if _is_fully_connected(state, task) is dense]
    loads = [task for task in state.loads() if _is_fully_connected(state, task) is dense]
    return executions[:1] or loads[:1]


def _is_fully_connected(state: RequestProgress, task: LayerTask) -> bool:
    return state.network.layers[task.layer].kind == "fc"

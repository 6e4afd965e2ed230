"""The benchmark: workloads by several policies in alternation, beside the critical network alone.

    turn 0   solo  warm  sequential  multistream  barrier  elastic
    turn 1   solo  warm  elastic  barrier  multistream  sequential    new arrivals, the same for all runs of a turn

A host that waits for a request falls asleep, and takes time to wake that has nothing to do with sharing a GPU. So the
critical network also runs alone in a closed loop, warm; by how much it is faster there is the time to wake, which is
told apart and no part of what latencies are relative to.
      |
      +--> ratios within each turn --> their mean, and a bootstrap interval over turns

A ratio is of two runs of one turn: what drifts over a campaign, a clock or a temperature, is in both. Turns are
resampled, as the requests of one run depend on each other.

Runs of tasks by a policy, each on a backend of its own: what the benchmark compares.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from edgetune.errors import EdgetuneError, InputError
from edgetune.serving.arrivals import parse_arrivals
from edgetune.stages.elastic.bound import LatencyBound
from edgetune.stages.elastic.gpu import Gpu, GpuTask
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import PublishedFigure, TaskPair, published
from edgetune.stages.elastic.policies.simple import SOLO, MultiStream
from edgetune.stages.elastic.view import ElasticPolicy, GpuBackend, RequestRecord
from edgetune.stats import median, percentile
from edgetune.units import NS


@dataclass(frozen=True, slots=True)
class RequestLatencies:
    """The latencies of one run.

    Args:
        latencies_s: Of the answered requests, from arrival to answer, by task.
        unanswered_s: How long the others had waited at the end of the run, by task.
        duration_s: Of the run.
    """

    latencies_s: Mapping[str, Sequence[float]]
    unanswered_s: Mapping[str, Sequence[float]]
    duration_s: float

    def rate_per_s(self, *tasks: str) -> float:
        """Return how many requests of these tasks were answered in a second."""
        return sum(len(self.latencies_s[task]) for task in tasks) / self.duration_s


Runner = Callable[[Sequence[GpuTask], str, int], RequestLatencies]
"""Runs tasks by a policy in a turn; arrivals depend on tasks and turn alone. The policy ``solo`` is for one task."""


_TURNS = 10_000
"""More than there are turns, so that seeds of different runs differ."""
BackendFactory = Callable[[Sequence[GpuTask]], AbstractContextManager[GpuBackend]]
"""Opens a backend for tasks, and closes it."""


def runner(
    backend: BackendFactory, policies: Mapping[str, ElasticPolicy], gpu: Gpu, *, duration_s: float, seed: int = 0
) -> Runner:
    """Return a function that runs tasks, each time on a new backend.

    Args:
        backend: Opens backends.
        policies: By name; each is used for all of its runs, so that its tables are computed once.
        gpu: Limits of the backend.
        duration_s: Of a run, s.
        seed: Of random arrivals, together with the turn.
    """
    known: Mapping[str, ElasticPolicy] = {SOLO: MultiStream(), **policies}

    def run(tasks: Sequence[GpuTask], policy: str, turn: int) -> RequestLatencies:
        with backend(tasks) as given:
            turn_seed = seed * _TURNS + turn
            loop = ElasticLoop(known[policy], given, tasks, gpu=gpu, duration_s=duration_s, seed=turn_seed)
            begin_ns = given.now_ns()
            loop.run()
            return answers_of(loop.requests, tasks, (given.now_ns() - begin_ns) / NS)

    return run


def answers_of(requests: Sequence[RequestRecord], tasks: Sequence[GpuTask], duration_s: float) -> RequestLatencies:
    """Return the latencies of a run.

    Raises:
        EdgetuneError: a request failed: figures without it would flatter.
    """
    failed = next((each for each in requests if each.outcome == "failed"), None)
    if failed is not None:
        message = f"request {failed.number} of {failed.task.name} failed: {failed.failure}"
        raise EdgetuneError(message, "a benchmark needs all answers; choose another GPU or smaller networks")
    answered_s: dict[str, list[float]] = {task.name: [] for task in tasks}
    unanswered_s: dict[str, list[float]] = {task.name: [] for task in tasks}
    for each in requests:
        waits_s = answered_s if each.outcome == "ok" else unanswered_s
        waits_s[each.task.name].append((each.ended_ns - each.arrived_ns) / NS)
    return RequestLatencies(answered_s, unanswered_s, duration_s)


BASE = "sequential"
"""The policy that throughput is relative to."""
_UNQUEUED_PERCENT = 10
"""Percentile of latencies at which no request waited for the one before, unless the GPU is busy nearly all the time."""
_DEADLINE = 2.0
"""Of critical requests, times the median of the critical network alone, without the time to wake: ours, the paper names
none."""
_DRAWS = 2000
"""Resamples; the ends of a 95 % interval are then good to a few percent of its width (Efron and Tibshirani 1993)."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The mean over turns of one ratio in each.

    Args:
        value: The mean.
        low, high: Its 95 % interval by bootstrap over turns; ``None`` where turns do not differ: a single one, or those
            of a simulation with regular arrivals.
    """

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class PolicyBenchmark:
    """A workload by one policy.

    Args:
        policy: Its name.
        requests: Critical ones, of all turns, without those that were not due yet when a run ended.
        p50_s, p99_s, max_s: Of critical latency, over all turns, s.
        p50_x, p99_x: Relative to the critical network alone, without the time to wake.
        critical_per_s, normal_per_s: Answers, mean over turns.
        throughput_x: Answers of both, relative to sequential; ``None`` where that did not run or answered none.
        normal_x: Answers of the normal network, likewise.
        missed: Share of critical requests that were answered late or never.
        bound: The worst case of critical latency; ``None`` where there is none by this policy.
    """

    policy: str
    requests: int
    p50_s: float
    p99_s: float
    max_s: float
    p50_x: Ratio
    p99_x: Ratio
    critical_per_s: float
    normal_per_s: float
    throughput_x: Ratio | None
    normal_x: Ratio | None
    missed: float
    bound: LatencyBound | None = None


@dataclass(frozen=True, slots=True)
class WorkloadBenchmark:
    """A workload by all policies.

    Args:
        workload: Its name.
        critical, normal: Networks.
        arrivals, normal_arrivals: Of their requests.
        normal_sms: Multiprocessors that the normal network may use; ``None`` for all.
        alone_p50_s, alone_p99_s, alone_max_s: Latency of the critical network alone, s.
        waking_s: How much of that a host takes to wake that was idle, s.
        deadline_s: Of critical requests, s.
        busy: Share of the time for which critical requests would occupy the GPU were they alone.
        turns: Their number.
        policies: In the order asked for.
        published: The figures of the paper.
    """

    workload: str
    critical: str
    normal: str
    arrivals: str
    normal_arrivals: str
    normal_sms: int | None
    alone_p50_s: float
    alone_p99_s: float
    alone_max_s: float
    waking_s: float
    deadline_s: float
    busy: float
    turns: int
    policies: tuple[PolicyBenchmark, ...]
    published: tuple[PublishedFigure, ...]


def bench(
    workload: TaskPair, policies: Sequence[str], run: Runner, *, turns: int = 5, seed: int = 0
) -> WorkloadBenchmark:
    """Run a workload by policies in alternation.

    Args:
        workload: The workload.
        policies: Names, in the order in which the first turn runs them; the next turn runs them in reverse.
        run: Runs it.
        turns: Their number.
        seed: Of the bootstrap.

    Raises:
        InputError: a run is too short to answer a critical request.
    """
    alone: list[RequestLatencies] = []
    warm: list[RequestLatencies] = []
    runs: dict[str, list[RequestLatencies]] = {policy: [] for policy in policies}
    tasks = (workload.critical, workload.normal)
    by_turns = tuple(replace(task, sms=None) for task in tasks)  # a task that has the GPU to itself needs no part of it
    for turn in range(turns):
        one, *closed = (_with_answers(run((task,), SOLO, turn), workload, SOLO) for task in baselines(workload))
        alone.append(one)
        warm.append(closed[0] if closed else one)
        for policy in policies if turn % 2 == 0 else reversed(policies):
            sharing = by_turns if policy == BASE else tasks
            runs[policy].append(_with_answers(run(sharing, policy, turn), workload, policy))
    return _figures(workload, alone, warm, runs, seed)


def baselines(workload: TaskPair) -> tuple[GpuTask, ...]:
    """Return the critical task as it runs alone, and in a closed loop where it is in none."""
    task = workload.critical
    closed = parse_arrivals(task.arrivals).kind == "closed"
    return (task,) if closed else (task, replace(task, arrivals="closed"))


def _with_answers(answers: RequestLatencies, workload: TaskPair, policy: str) -> RequestLatencies:
    """Return the answers of a run, if there are critical ones.

    Raises:
        InputError: there are none.
    """
    if not answers.latencies_s[workload.critical.name]:
        message = f"workload {workload.name} by {policy}: no request of {workload.critical.name} was answered"
        raise InputError(message, "give it longer, e.g. --duration 10s")
    return answers


def _figures(
    workload: TaskPair,
    alone: Sequence[RequestLatencies],
    warm: Sequence[RequestLatencies],
    runs: Mapping[str, Sequence[RequestLatencies]],
    seed: int,
) -> WorkloadBenchmark:
    critical = workload.critical.name
    alone_s = [latency_s for answers in alone for latency_s in answers.latencies_s[critical]]
    unqueued_s, warm_s = (
        [percentile(answers.latencies_s[critical], _UNQUEUED_PERCENT) for answers in runs_of]
        for runs_of in (alone, warm)
    )
    wakings_s = [max(0.0, one_s - other_s) for one_s, other_s in zip(unqueued_s, warm_s, strict=True)]
    waking_s = median(wakings_s)
    deadline_s = _DEADLINE * (median(alone_s) - waking_s)
    awake = [
        replace(one, latencies_s={critical: [latency_s - each_s for latency_s in one.latencies_s[critical]]})
        for one, each_s in zip(alone, wakings_s, strict=True)
    ]
    answered_per_s = fmean(answers.rate_per_s(critical) for answers in alone)
    return WorkloadBenchmark(
        workload.name, workload.critical.network.name, workload.normal.network.name, workload.critical.arrivals,
        workload.normal.arrivals, workload.normal.sms,
        median(alone_s), percentile(alone_s, 99), max(alone_s), waking_s, deadline_s,
        min(1.0, answered_per_s * median(alone_s)), len(alone),
        tuple(
            _policy(workload, policy, answers, awake, runs.get(BASE), deadline_s=deadline_s, seed=seed)
            for policy, answers in runs.items()
        ),
        published(workload.name),
    )  # fmt: skip


def _policy(
    workload: TaskPair,
    policy: str,
    runs: Sequence[RequestLatencies],
    alone: Sequence[RequestLatencies],
    base: Sequence[RequestLatencies] | None,
    *,
    deadline_s: float,
    seed: int,
) -> PolicyBenchmark:
    critical, normal = workload.critical.name, workload.normal.name
    pooled_s = [latency_s for answers in runs for latency_s in answers.latencies_s[critical]]
    never = sum(each_s > deadline_s for answers in runs for each_s in answers.unanswered_s[critical])
    late = sum(latency_s > deadline_s for latency_s in pooled_s)

    def against(others: Sequence[RequestLatencies], figure: Callable[[RequestLatencies], float]) -> Ratio:
        pairs = zip(runs, others, strict=True)
        return mean_ratio([figure(one) / figure(other) for one, other in pairs], seed)

    def against_base(*tasks: str) -> Ratio | None:
        if base is None or not all(answers.rate_per_s(*tasks) for answers in base):
            return None
        return against(base, lambda answers: answers.rate_per_s(*tasks))

    return PolicyBenchmark(
        policy=policy,
        requests=len(pooled_s) + never,
        p50_s=median(pooled_s),
        p99_s=percentile(pooled_s, 99),
        max_s=max(pooled_s),
        p50_x=against(alone, lambda answers: percentile(answers.latencies_s[critical], 50)),
        p99_x=against(alone, lambda answers: percentile(answers.latencies_s[critical], 99)),
        critical_per_s=fmean(answers.rate_per_s(critical) for answers in runs),
        normal_per_s=fmean(answers.rate_per_s(normal) for answers in runs),
        throughput_x=against_base(critical, normal),
        normal_x=against_base(normal),
        missed=(late + never) / (len(pooled_s) + never),
    )


def mean_ratio(ratios: Sequence[float], seed: int = 0) -> Ratio:
    """Return the mean of ratios of turns, and its interval.

    The interval is the percentile bootstrap (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, 13.3):
    turns are drawn with replacement, as many as there are. Of few turns it is too narrow rather than too wide.

    Args:
        ratios: One of each turn.
        seed: Of the draws.
    """
    mean = fmean(ratios)
    if min(ratios) == max(ratios):
        return Ratio(mean)
    drawn = np.random.default_rng(seed).integers(0, len(ratios), (_DRAWS, len(ratios)))
    low, high = np.percentile(np.asarray(ratios)[drawn].mean(axis=1), [2.5, 97.5])
    return Ratio(mean, float(low), float(high))

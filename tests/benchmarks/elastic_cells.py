"""The policies of ``elastic_gpu.py``: workloads by policies in alternation, in the time that there is.

    workload -> made ready -> time that is left / runs that are left -> turn 0: solo warm policies -> figures
                                                                        turn 1: ...                -> figures

A cell is a run of a workload by a policy in a turn on a number of multiprocessors. It is written when it is measured,
and the figures of its workload after each turn.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from elastic_report import Budget, Plan, PowerMeter, Report, mean_w, plan

from edgetune.errors import EdgetuneError, InputError
from edgetune.stages.elastic.bench import PolicyBenchmark, Ratio, WorkloadBenchmark, baselines, bench
from edgetune.stages.elastic.bound import describe_bound, latency_bound, measured_costs
from edgetune.stages.elastic.cuda.gpu_session import GpuSession
from edgetune.stages.elastic.cuda.green import part_size
from edgetune.stages.elastic.gpu import Gpu
from edgetune.stages.elastic.mdtb.workloads import TaskPair, workload
from edgetune.stages.elastic.policies import POLICIES, make_policy
from edgetune.stages.elastic.policies.multistream import SOLO
from edgetune.stages.elastic.runner import RequestLatencies, runner
from edgetune.stages.elastic.work import GpuTask
from edgetune.stats import percentile
from edgetune.units import NS

HALF = "multistream (half)"
"""The policy multistream with normal work on half of the multiprocessors."""
ROWS = (*POLICIES, HALF)
GROUP_S, RUN_S = 5.0, 0.05
"""Guesses until they are measured: time to make a workload ready, at most ``GROUP`` of all, and what a run takes longer
than its duration, s."""
GROUP = 0.01


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for.

    Args:
        letters: Workloads.
        names: Policies, ``ROWS``.
        sizes: Of networks, in place of the usual ones.
        turns: At most.
        longest_s, smallest_s: Of a run, s.
    """

    letters: Sequence[str]
    names: Sequence[str]
    sizes: Mapping[str, Mapping[str, int]]
    turns: int
    longest_s: float
    smallest_s: float


def fitted(ready: GpuSession, asked: TaskPair) -> TaskPair:
    """Return a workload whose kernels ask for what they do when compiled for this GPU, and take what they do on it."""
    critical, normal = ready.measured(ready.fitted([asked.critical, asked.normal]))
    return replace(asked, critical=critical, normal=normal)


def chosen(name: str, tasks: Sequence[GpuTask], gpu: Gpu) -> Any:
    """Return the policy of a row."""
    return make_policy(name.partition(" (")[0], tasks, gpu)


@dataclass(slots=True)
class PolicyRuns:
    """Runs workloads by policies.

    Args:
        options: What was asked for.
        report: Where figures go.
        budget: The time.
        meter: Of power.
        group_s: The longest so far to make a workload ready, s.
        longer_s: What all runs so far took longer than their durations, s.
        cells: Their number.
    """

    options: Options
    report: Report
    budget: Budget
    meter: PowerMeter
    group_s: float = 0.0
    longer_s: float = 0.0
    cells: int = 0

    @property
    def run_s(self) -> float:
        """What a run takes longer than its duration, s."""
        return self.longer_s / self.cells if self.cells else RUN_S

    def on(self, ready: GpuSession, place: dict[str, Any], later: tuple[int, float]) -> None:
        """Run all workloads on a GPU, or on a part of it.

        Args:
            ready: The GPU.
            place: Gets the figures.
            later: Parts that are still to come, and how long each of them takes without policies, s.
        """
        options, place["policies"], place["cells"] = self.options, [], []
        names = list(options.names)
        for at, letter in enumerate(options.letters):
            groups = [
                len(names) + len(baselines(workload(each, sizes=options.sizes)))
                for each in (*options.letters[at:], *list(options.letters) * later[0])
            ]
            left_s = self.budget.left_s - later[0] * later[1]
            if not self._plan(left_s - self._group_s, groups).groups:
                which = f"workloads {', '.join(options.letters[at:])} on {ready.gpu.sm_count} multiprocessors"
                self.report.leave_out(which, f"{self.budget.left_s:.0f} s are left")
                return
            begin_s = self.budget.now_s()
            asked = fitted(ready, workload(letter, sizes=options.sizes))
            self.group_s = max(self.group_s, self.budget.now_s() - begin_s)
            made = self._plan(self.budget.left_s - later[0] * later[1], groups)
            if not made.groups:
                made = replace(made, groups=1, turns=1, duration_s=options.smallest_s)
            said = f"{made.turns} turns of {groups[0]} runs of {made.duration_s:.3g} s"
            rest = f", of which the last {len(groups) - made.groups} do not fit" if made.groups < len(groups) else ""
            if math.isfinite(left_s):
                said += f"; {left_s:.0f} s for {len(groups)} workloads on GPU sizes{rest}"
            self.report.say(f"plan       {letter}: {said}")
            gc.collect()
            gc.freeze()  # each run collects garbage first, which takes 0.1 s where PyTorch is loaded
            try:
                WorkloadRuns(self, ready, asked, names, made.duration_s).run(made.turns, place)
            finally:
                gc.unfreeze()

    @property
    def _group_s(self) -> float:
        return self.group_s or min(GROUP_S, GROUP * self.budget.within_s)

    def _plan(self, left_s: float, groups: Sequence[int]) -> Plan:
        options = self.options
        return plan(
            left_s, groups, turns=options.turns, longest_s=options.longest_s, smallest_s=options.smallest_s,
            group_s=self._group_s, run_s=self.run_s,
        )  # fmt: skip


@dataclass(slots=True)
class WorkloadRuns:
    """One workload on one part of a GPU.

    Args:
        of: What runs it.
        ready: The GPU.
        asked: The workload, measured.
        names: Policies; one that fails is taken out.
        duration_s: Of a run, s.
    """

    of: PolicyRuns
    ready: GpuSession
    asked: TaskPair
    names: list[str]
    duration_s: float
    answers: dict[tuple[str, str, int], RequestLatencies] = field(default_factory=dict)
    powers_w: dict[str, list[float]] = field(default_factory=dict)
    energies: dict[str, tuple[float, int]] = field(default_factory=dict)
    running: str = ""

    @property
    def tasks(self) -> tuple[GpuTask, ...]:
        return self.asked.critical, *self.asked.normals

    def run(self, turns: int, place: dict[str, Any]) -> None:
        """Run turns while there is time, and write figures after each; then print them."""
        names, report = list(self.names), self.of.report
        figures, written = None, dict[str, Any]()
        policies, runs = self._runs()
        skipped = done = 0
        while done < turns:
            runs_s = (len(names) + len(baselines(self.asked))) * (self.duration_s + self.of.run_s)
            if figures is not None and self.of.budget.left_s < runs_s:
                report.leave_out(f"{turns - done} turns of {self.asked.name}", "time is up")
                break

            def again(tasks: Sequence[GpuTask], policy: str, turn: int, skipped: int = skipped) -> RequestLatencies:
                return self._cell(runs, tasks, policy, turn + skipped, place)

            try:
                figures = bench(self.asked, names, again, turns=done + 1)
            except EdgetuneError as error:
                what = f"{self.running} in turn {done + skipped} of {self.asked.name}"
                report.leave_out(what, error.message)
                if self.ready.lost:
                    raise
                if isinstance(error, InputError) and not done and skipped < turns:  # no request came in so short a run
                    skipped += 1
                elif self.running in names and self.running != "sequential":
                    names.remove(self.running)
                else:
                    break
                continue
            done += 1
            figures = self._bounded(figures, policies)
            written.update(asdict(figures), energy=self._energy())
            if done == 1:
                place["policies"].append(written)
            report.write()
        if figures is not None:
            self._print(figures)

    def _runs(self) -> tuple[dict[str, Any], Callable[..., RequestLatencies]]:
        """Return the policies, and what runs each of them."""
        gpu, duration_s = self.ready.gpu, self.duration_s
        policies = {name: chosen(name, self.tasks, gpu) for name in self.names}
        looped = runner(self.ready.open_backend, policies, gpu, duration_s=duration_s)

        def run(tasks: Sequence[GpuTask], name: str, turn: int) -> RequestLatencies:
            if name == HALF:
                sms = part_size(self.ready.context, gpu.sm_count // 2)
                tasks = [each if each.critical else replace(each, sms=sms) for each in tasks]
            return looped(tasks, name, turn)

        return policies, run

    def _cell(
        self,
        runs: Callable[..., RequestLatencies],
        tasks: Sequence[GpuTask],
        policy: str,
        turn: int,
        place: dict[str, Any],
    ) -> RequestLatencies:
        """Return the answers of a run, which runs and is written the first time."""
        critical, self.running = tasks[0], policy
        key = policy, critical.arrivals, turn
        if key in self.answers:
            return self.answers[key]
        begin_s, meter = self.of.budget.now_s(), self.of.meter
        answers = runs(tasks, policy, turn)
        end_ns = time.monotonic_ns()
        readings_w = meter.between_w(end_ns - round(answers.duration_s * NS), end_ns)
        self.answers[key] = answers
        latencies_s, names = answers.latencies_s[critical.name], [task.name for task in tasks[1:]]
        answered = sum(map(len, answers.latencies_s.values()))
        if policy != SOLO:
            self.powers_w.setdefault(policy, []).extend(readings_w)
            before_s, before = self.energies.get(policy, (0.0, 0))
            self.energies[policy] = before_s + answers.duration_s, before + answered
        power_w = mean_w(readings_w)
        place["cells"].append(
            {
                "workload": self.asked.name, "policy": policy, "arrivals": critical.arrivals, "turn": turn,
                "duration_s": answers.duration_s, "requests": len(latencies_s),
                "latency_s": {percent: percentile(latencies_s, percent) for percent in (10, 50, 99, 100)}
                if latencies_s
                else None,
                "unanswered": sum(map(len, answers.unanswered_s.values())),
                "critical_per_s": answers.rate_per_s(critical.name), "normal_per_s": answers.rate_per_s(*names),
                "power_w": power_w, "energy_j": power_w * answers.duration_s / answered
                if power_w is not None and answered
                else None,
            }
        )  # fmt: skip
        self.of.report.write()
        self.of.longer_s += self.of.budget.now_s() - begin_s - self.duration_s
        self.of.cells += 1
        return answers

    def _bounded(self, figures: WorkloadBenchmark, policies: Mapping[str, Any]) -> WorkloadBenchmark:
        """Return figures with the worst case by each policy that has one."""

        def bounded(one: PolicyBenchmark) -> PolicyBenchmark:
            gpu = self.ready.gpu
            found = latency_bound(
                policies[one.policy], self.tasks, gpu, measured_costs(gpu), alone_s=figures.alone_max_s
            )
            return one if found is None else replace(one, bound=found[0])

        return replace(figures, policies=tuple(map(bounded, figures.policies)))

    def _energy(self) -> dict[str, dict[str, float]]:
        """Return the mean power, W, and the energy of an answered request, J, by policies of which it was read."""
        found = {}
        for policy, (duration_s, answered) in self.energies.items():
            power_w = mean_w(self.powers_w[policy])
            if power_w is not None:
                found[policy] = {"power_w": power_w, "request_j": power_w * duration_s / answered}
        return found

    def _print(self, figures: WorkloadBenchmark) -> None:
        awake_ms, waking_ms = 1e3 * (figures.alone_p50_s - figures.waking_s), 1e3 * figures.waking_s
        arrivals = "" if figures.normal_arrivals == "closed" else f" ({figures.normal_arrivals})"
        pair = f"{figures.critical} ({figures.arrivals}) beside {figures.normal}{arrivals}"
        self.of.report.say(
            f"policies   {figures.workload}: {pair}; alone {awake_ms:.3f} ms, waking {waking_ms:.3f} ms, "
            f"{figures.busy:.0%} of the time; {figures.turns} turns of {self.duration_s:.3g} s"
        )
        energy, width = self._energy(), max(map(len, self.names))
        for each in figures.policies:
            self.of.report.say("           " + told(each, energy.get(each.policy), width))
        for each in figures.policies:
            if each.bound is not None:
                self.of.report.say(f"bound      {each.policy}: {describe_bound(each.bound, each.max_s)}")


def told(each: PolicyBenchmark, energy: Mapping[str, float] | None, width: int = 12) -> str:
    """Return a line about a policy."""
    power = "" if energy is None else f"  {energy['power_w']:.0f} W  {1e3 * energy['request_j']:.1f} mJ a request"
    return (
        f"{each.policy:{width}} p50 x{spread(each.p50_x)}  p99 x{spread(each.p99_x)}  "
        f"throughput x{spread(each.throughput_x)}  normal {each.normal_per_s:.1f}/s  missed {each.missed:.1%}{power}"
    )


def spread(ratio: Ratio | None) -> str:
    """Return a ratio with its interval."""
    if ratio is None:
        return "-"
    return f"{ratio.value:.3f}" + ("" if ratio.low is None else f" [{ratio.low:.3f}, {ratio.high:.3f}]")

"""Runs the jobs of ``edgetune schedule run``: from its plan to a written timeline."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from edgetune.artifacts import timeline as timelines
from edgetune.artifacts.header import Header
from edgetune.artifacts.output_file import scratch_folder
from edgetune.artifacts.rows_file import RowsFile
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import EdgetuneError
from edgetune.stages.schedule.policies import PolicyChoice
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.workflows.device_option import open_named, warn_of_host_load
from edgetune.workflows.output import FinishedRun, keep_rows, write_run
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.schedule.live import LiveRunner, enforced_by
from edgetune.workflows.schedule.options import ScheduleOptions
from edgetune.workflows.schedule.plan import SchedulePlan, plan_schedule
from edgetune.workflows.schedule.turns import ScheduleResult, SimulatedRunner, TurnRunner, run_turns


def schedule(opts: ScheduleOptions, reporter: Reporter) -> FinishedRun[Timeline]:
    """Run every policy in turn and write the timeline.

    Raises:
        InputError, InfeasibleError, DeviceError: an option or the jobs are invalid, or nothing could run.
    """
    plan = plan_schedule(opts, reporter)
    plan.requests(0)
    SimulationLabel(opts.simulate, reporter).announce()
    if not opts.simulate:
        warn_of_host_load(reporter)
    rows = keep_rows(plan.target, lambda: timeline_of(plan, ScheduleResult()), TimelineRow, reporter)
    with _runner(plan, rows) as runner:
        outcome = run_turns(plan, runner, reporter, rows=rows if opts.simulate else None)
    return _finish(plan, outcome, reporter, rows)


def rehearse(plan: SchedulePlan) -> Iterator[tuple[PolicyChoice, int]]:
    """Yield a policy for each form of networks, and the bytes of its process without networks.

    Raises:
        InputError, InfeasibleError, DeviceError: the run would be refused.
    """
    requests = plan.requests(0)
    by_form = {policy.form: policy for policy in reversed(plan.policies)}
    with _runner(plan) as runner:
        for policy in by_form.values():
            yield policy, runner.taken_bytes(policy, requests)


@contextmanager
def _runner(plan: SchedulePlan, rows: RowsFile | None = None) -> Iterator[TurnRunner]:
    if plan.opts.simulate:
        yield SimulatedRunner(plan)
    else:
        with scratch_folder() as root:
            yield LiveRunner(plan, RunInputs(root, seed=plan.seed), rows)


def _finish(
    plan: SchedulePlan, outcome: ScheduleResult, reporter: Reporter, rows: RowsFile | None
) -> FinishedRun[Timeline]:
    """Write the timeline.

    Raises:
        BaseException: the error that ended the run before its first row.
    """
    failure = outcome.failure
    if failure is not None and not outcome.rows:
        if rows is not None:
            (rows.finish if rows.kept else rows.discard)()
        raise failure
    timeline = timeline_of(plan, outcome)
    try:
        write_run(plan.target, timeline, rows, reporter)
    except (EdgetuneError, OSError) as error:  # a full disk: the figures at least are shown
        failure = failure or error
    for policy, lost in outcome.lost.items():
        reporter.info(f"{policy}: {lost.message}")
    return FinishedRun(timeline, plan.target, outcome.lost, outcome.stopped_by, failure)


def timeline_of(plan: SchedulePlan, outcome: ScheduleResult) -> Timeline:
    """Return the timeline of all turns, with its inputs and conditions."""
    networks = [
        {
            "name": each.network.name,
            **each.origin,
            "layers": len(each.network.layers),
            "weight_bytes": each.network.weight_bytes,
            **({"service_s": each.network.service_s} if each.timed else {}),
        }
        for each in plan.known
    ]
    shared: Mapping[str, Any] = {
        "simulated": plan.opts.simulate, **_device_conditions(plan), "limit_bytes": plan.limit_bytes,
        "workers": plan.workers, "safety": plan.safety, "policies": outcome.conditions,
        **enforced_by(outcome.conditions.values()), "turns": plan.opts.turns, "seed": plan.seed,
    }  # fmt: skip
    inputs = {"jobs": plan.opts.jobs, "networks": networks}
    header = Header.new(timelines.KIND, timelines.VERSION, inputs=inputs, conditions=shared)
    return Timeline(header, tuple(outcome.rows))


def _device_conditions(plan: SchedulePlan) -> Mapping[str, Any]:
    """Return the conditions of the machine that runs, or has measured, the layers."""
    if plan.opts.simulate:
        return {} if plan.scenario.device is None else {"device": plan.scenario.device}
    device = open_named("host")
    return {**device.conditions, "device": device.name}

"""Runs the jobs of ``edgetune schedule run``: from its plan to a written timeline."""

from collections.abc import Iterator
from contextlib import contextmanager

from edgetune.artifacts import timeline as timelines
from edgetune.artifacts.header import Header
from edgetune.artifacts.output_file import scratch_folder
from edgetune.artifacts.rows_file import RowsFile
from edgetune.artifacts.timeline import Timeline, TimelineRow
from edgetune.errors import EdgetuneError
from edgetune.stages.schedule.network import least_budget_bytes
from edgetune.stages.schedule.run_inputs import RunInputs
from edgetune.units import NS, format_bytes, format_duration
from edgetune.workflows.device_option import open_named
from edgetune.workflows.load_warning import warn_of_host_load
from edgetune.workflows.output import FinishedRun, keep_rows, write_run
from edgetune.workflows.reporting import Reporter, SimulationLabel
from edgetune.workflows.schedule.options import ScheduleOptions
from edgetune.workflows.schedule.plan import SchedulePlan, plan_schedule
from edgetune.workflows.schedule.turns import LiveRunner, ScheduleResult, SimulatedRunner, run_turns


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
        outcome = run_turns(plan, runner, reporter, rows)
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


def dry_run(opts: ScheduleOptions, reporter: Reporter) -> Iterator[str]:
    """Say the costs of every network, the requests and policies, and the memory of the process of each form.

    Raises:
        InputError, InfeasibleError, DeviceError: the run would be refused.
    """
    plan = plan_schedule(opts, reporter)
    requests, limit = plan.requests(0), format_bytes(plan.limit_bytes)
    for each in plan.known:
        network, least = each.network, least_budget_bytes(each.network)
        alone = f", {format_duration(network.service_s)} alone" if each.timed else ""
        yield (
            f"{network.name}: {len(network.layers)} layers, {format_bytes(network.weight_bytes)} of weights{alone}; "
            f"runs in {format_bytes(least)}, layer by layer"
        )
    last_s = max((request.arrival_ns for request in requests), default=0) / NS
    yield f"{len(requests)} requests, the last after {format_duration(last_s)}; {limit}"
    turns = f", {opts.turns} turns each" if opts.turns > 1 else ""
    names = ", ".join(policy.words for policy in plan.policies)
    yield f"{names}{turns}, {'simulated' if opts.simulate else 'for real'}"
    with _runner(plan) as runner:
        for policy in {policy.form: policy for policy in reversed(plan.policies)}.values():
            if taken_bytes := runner.taken_bytes(policy, requests):
                layers = policy.form == "layers"
                what = "ONNX Runtime and the sessions of all layers take" if layers else "ONNX Runtime takes"
                yield f"{policy.words}: {what} {format_bytes(taken_bytes)} of {limit} before anything is loaded"


@contextmanager
def _runner(plan: SchedulePlan, rows: RowsFile | None = None) -> Iterator[SimulatedRunner | LiveRunner]:
    if plan.opts.simulate:
        yield SimulatedRunner(plan)
    else:
        with scratch_folder() as root:
            yield LiveRunner(plan, RunInputs(root, seed=plan.seed), rows)


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
    if plan.opts.simulate:  # the machine is the one that has measured the layers
        machine = {} if plan.scenario.device is None else {"device": plan.scenario.device}
    else:
        device = open_named("host")
        machine = {**device.conditions, "device": device.name}
    turns = [turn for of in outcome.conditions.values() for turn in of if "enforced_by" in turn]
    weakest = next((turn for turn in turns if turn["enforced_by"] == "accounted"), turns[0] if turns else {})
    shared = {
        "simulated": plan.opts.simulate, **machine, "limit_bytes": plan.limit_bytes, "workers": plan.workers,
        "safety": plan.safety, "policies": outcome.conditions,
        **{name: weakest[name] for name in ("enforced_by", "not_enforced_for") if name in weakest},
        "turns": plan.opts.turns, "seed": plan.seed,
    }  # fmt: skip
    inputs = {"jobs": plan.opts.jobs, "networks": networks}
    header = Header.new(timelines.KIND, timelines.VERSION, inputs=inputs, conditions=shared)
    return Timeline(header, tuple(outcome.rows))

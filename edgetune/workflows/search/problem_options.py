"""Parses the problem of a search: budgets with units, the file of ``--problem``, epochs from a table.

Describes a step, a plan and the certainty of a search in one line.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast, get_args

from edgetune.artifacts.convergence import Convergence, Epochs, epochs_of
from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.io import read
from edgetune.artifacts.mode import SETTINGS, Mode
from edgetune.artifacts.plan import Configuration, Plan
from edgetune.artifacts.problem import COLUMN_BUDGETS, Objective, Problem, ProblemKind, read_problem
from edgetune.artifacts.trace import TraceRow
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.stages.profiling.comparison import CANNOT_TELL, compare_rows, verdict
from edgetune.stages.profiling.ratio import Ratio
from edgetune.stages.search.accuracy import epochs_of_noise
from edgetune.stages.search.answer import excess_of
from edgetune.stages.search.history import JudgedPoint, SearchHistory
from edgetune.stages.search.problem import NEED_POWER, objective_of, runs_back_to_back
from edgetune.units import format_si, parse_power_w, parse_rate_per_s, parse_share, parse_time_s
from edgetune.workflows.search.options import ProblemOptions, SearchOptions


def completed(opts: SearchOptions) -> tuple[SearchOptions, Problem | None]:
    """Return the options with kind, second network and device derived from the others, and the problem of the file.

    Raises:
        InputError: the kind of problem is unknown (the hint names the nearest), or the file is not a problem.
    """
    if opts.kind is not None:
        choose(opts.kind, get_args(ProblemKind), what="kind of problem")
    file = None if opts.problem is None else read_problem(opts.problem)
    return replace(
        opts,
        sources=(opts.sources,) if isinstance(opts.sources, str) else tuple(opts.sources) or ("-",),
        kind=opts.kind or (file.kind if file else None) or opts.task,
        background=opts.background or (file.background if file else None),
        background_batch=opts.background_batch or (file.background_batch_size if file else None),
        device=opts.device or ("jetson" if opts.root else None),
    ), file


def problem_of(
    opts: ProblemOptions,
    kind: str,
    file: Problem | None,
    *,
    background: str | None = None,
    epochs: Epochs | None = None,
) -> Problem:
    """Return the problem in base units.

    Args:
        opts: The options as written.
        kind: The kind of problem, from the options or from the table.
        file: The problem in the file of ``--problem``; options override it.
        background: Name of the second workload if it differs from the option.
        epochs: The result of ``epochs_asked``.

    Raises:
        InputError: a quantity lacks its unit, is not a number or not above zero, or the objective is unknown.
    """
    if opts.objective is not None:
        choose(opts.objective, get_args(Objective), what="objective")
    given: dict[str, Any] = {
        "power_budget_w": _parsed(opts.power_budget, parse_power_w, "--power-budget"),
        "latency_budget_s": _parsed(opts.latency_budget, parse_time_s, "--latency-budget"),
        "arrival_rate_per_s": _parsed(opts.arrival_rate, parse_rate_per_s, "--arrival-rate"),
        **{
            budget.field: _parsed(getattr(opts, f"{budget.name}_budget"), budget.parse, budget.option)
            for budget in COLUMN_BUDGETS.values()
        },
        "objective": opts.objective,
        "margin": _parsed(opts.margin, parse_share, "--margin"),
        "background": background or opts.background,
        "background_batch_size": opts.background_batch,
        "epochs_to_target": epochs and tuple(sorted(epochs.by_batch.items())),
    }
    base = file or Problem(cast("ProblemKind", kind))
    stated = {name: value for name, value in given.items() if value is not None}
    return replace(base, kind=cast("ProblemKind", kind), **stated)


def _parsed(words: str | float | None, parse: Any, option: str) -> Any:
    return None if words is None else parse(words, what=option)


def epochs_asked(opts: ProblemOptions, kind: str, batch_sizes: Iterable[int]) -> Epochs | None:
    """Return the epochs in the table of ``--convergence``, or those of ``--noise-scale``; ``None`` without either.

    Args:
        opts: The options as written.
        kind: The kind of problem.
        batch_sizes: Those to choose from.

    Raises:
        InputError: the problem is not of kind ``accuracy``, the table is unreadable or reaches no target, both are
            given, or the noise scale is not above zero.
    """
    given = {"--convergence": opts.convergence, "--noise-scale": opts.noise_scale}
    named = [option for option, value in given.items() if value is not None]
    if not named:
        return None
    if kind != "accuracy":
        raise InputError(f"{named[0]}: a problem of kind {kind} does not ask for accuracy", "--kind accuracy")
    if opts.noise_scale is not None:
        if opts.convergence is not None:
            raise InputError("--convergence and --noise-scale both say the epochs", "give one of them")
        if not opts.noise_scale > 0:
            raise InputError(f"the noise scale must be above 0 samples, not {opts.noise_scale}", "e.g. 80")
        return Epochs(epochs_of_noise(opts.noise_scale, batch_sizes), {})
    assert opts.convergence is not None
    return epochs_of(read(Convergence, opts.convergence), name=opts.convergence)


TOO_FEW = 0.05
"""Expected gain of ten more measurements, a share of the objective, above which those made were too few."""


def describe_step(step: TraceRow) -> str:
    """Return one step of a search as a line."""
    time = "failed" if step.minibatch_s is None else format_si(step.minibatch_s, "s")
    power = "" if step.power_w is None else f", {format_si(step.power_w, 'W')}"
    verdict = {True: "within budget", False: "over budget", None: "cannot tell"}[step.feasible]
    mode = Mode.of({name: value for name in SETTINGS if (value := getattr(step, name)) is not None})
    return f"step {step.step}: {mode}, batch {step.batch_size}: {time}{power}, {verdict} ({step.reason})"


def describe_plan(plan: Plan, points: str | None = None) -> str:
    """Return the result of a search and its number of points, which ``points`` puts in other words, as a line."""
    measured, search = plan.measured, plan.search
    figures = [] if measured.minibatch_s is None else [f"{format_si(measured.minibatch_s, 's')} per minibatch"]
    if plan.configuration.batch_size is None and measured.throughput_per_s is not None:
        figures.append(f"{measured.throughput_per_s:.4g} background samples per s")
    if runs_back_to_back(plan.problem) and measured.minibatch_s is not None:
        late_s = measured.minibatch_p95_s
        late = "" if late_s is None else f", {format_si(late_s, 's')} at the 95th percentile"
        figures.append(f"batches back to back (the latency is the time of a batch{late})")
    elif plan.problem.arrival_rate_per_s is not None and measured.latency_s is not None:
        aside = ", background aside" if plan.configuration.batch_size is None else ""
        late_s = (measured.infer or measured).minibatch_p95_s
        percentile = "" if late_s is None else " (95th percentile)"
        figures.append(f"answers within {format_si(measured.latency_s, 's')}{percentile}{aside}")
    if measured.tokens_per_s is not None:
        figures.append(f"{measured.tokens_per_s:.4g} tokens/s")
    if measured.tokens_per_j is not None:
        figures.append(f"{measured.tokens_per_j:.4g} tokens/J")
    if measured.power_w is not None:
        figures.append(format_si(measured.power_w, "W"))
    points = points or f"{search.points_measured} point{'' if search.points_measured == 1 else 's'} measured"
    known = f", {search.known_points} known" if search.known_points else ""
    return f"{_where(plan.configuration)}: {', '.join(figures) or 'not measured'}; {points}{known}"


def describe_gain(share: float) -> str:
    """Return the expected gain of more measurements, a share of the objective, as a line."""
    percent = "less than 0.1" if share < 0.001 else f"{100 * share:.2g}"
    more = "; too few for this budget: give more with --max-points" if share > TOO_FEW else ""
    return f"expected gain of ten more measurements: {percent} %{more}"


def without_percentile(history: SearchHistory) -> tuple[DataWarning, ...]:
    """Return the warning that the answer keeps a latency budget by ``minibatch_s`` for want of a percentile."""
    best = history.best
    if history.problem.latency_budget_s is None or best is None or best.row.minibatch_p95_s or best.row.times_s:
        return ()
    advice = "the 95th percentile of times was not measured, so that latencies follow from minibatch_s, often a median"
    return (DataWarning("no-percentile", advice),)


def uncertain_answer(history: SearchHistory) -> tuple[DataWarning, ...]:
    """Return the warning that intervals are wider than the answer's lead over the next feasible point; else nothing.

    Two workloads and points without an interval get no warning.
    """
    best = history.best
    others = [each for each in history.judged_points() if each.judgement.feasible and each.judgement.objective]
    others = [each for each in others if best is not None and each.row.point != best.row.point]
    if best is None or best.background is not None or not others:
        return ()
    following = min(others, key=JudgedPoint.rank)
    figure = "energy" if objective_of(history.problem) in NEED_POWER else "time"
    ratio = compare_rows([best.row], [following.row], (figure,)).ratios.get(figure)
    reaches_zero = any(each.row.minibatch_ci95_low_s == 0 for each in (best, following))
    if ratio is None or (ratio.low == ratio.high and not reaches_zero):
        return ()
    lead = 1 + excess_of(best, following)
    ends = [None if end is None else lead * end / ratio.ratio for end in (ratio.low, ratio.high)]
    if verdict(Ratio(lead, *ends), figure) != CANNOT_TELL:
        return ()
    within = "an interval reaches down to 0 s" if None in ends else f"within {ends[0]:.3g} to {ends[1]:.3g}"
    advice = (
        f"cannot tell the answer from {following.row.mode}, batch {following.row.batch_size}: it is {lead:.3g} times "
        f"as good, {within}; measure both again, longer or with less running beside them"
    )
    return (DataWarning("cannot-tell", advice, {"lead": lead}),)


def _where(chosen: Configuration) -> str:
    """Return the mode and batch sizes."""
    if chosen.batch_size is not None:
        return f"{chosen.mode}, batch {chosen.batch_size}"
    text = f"{chosen.mode}, batch {chosen.infer_batch_size}"
    minibatches = chosen.train_minibatches or chosen.background_minibatches
    size = chosen.train_batch_size or chosen.background_batch_size
    return text if minibatches is None else f"{text} and then {minibatches} background minibatches of {size}"

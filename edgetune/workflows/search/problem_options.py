"""Parses the problem of a search: budgets with units, the file of ``--problem``, epochs from a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast, get_args

from edgetune.artifacts.column_budgets import COLUMN_BUDGETS
from edgetune.artifacts.convergence import Convergence, Epochs, epochs_of
from edgetune.artifacts.io import read
from edgetune.artifacts.problem import Objective, Problem, ProblemKind, read_problem
from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.stages.search.accuracy import epochs_of_noise
from edgetune.units import parse_power_w, parse_rate_per_s, parse_share, parse_time_s
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

"""``edgetune search evaluate --family dynamic``: requests come faster and slower, in windows of five minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgetune.errors import InputError
from edgetune.units import format_duration, parse_power_w, parse_rate_per_s, parse_share, parse_time_s

if TYPE_CHECKING:
    from edgetune.artifacts.evaluation import EvaluationRun
    from edgetune.cli.evaluation_options import EvaluationOptions, TrafficOptions
    from edgetune.cli.evaluation_tables import EvaluationTables
    from edgetune.cli.screen import Screen
    from edgetune.search.evaluation.answering import Contender

MEAN_PER_S = 60.0


def replay_all(
    play: EvaluationOptions, tables: EvaluationTables, contenders: Sequence[Contender], screen: Screen
) -> tuple[list[EvaluationRun], dict[str, Any]]:
    """Replay a trace of requests with every contender; return the runs, and conditions for the header.

    Raises:
        InputError: no inference table, a bad trace, or options that have no use here.
    """
    from edgetune.search.evaluation.answering import require_solvers
    from edgetune.search.evaluation.dynamic import MINIBATCHES, SETTLING_S, WINDOW_S, run_windows, window_cases
    from edgetune.search.evaluation.truth import best_answers

    if play.sample is not None or play.everything or play.grid is not None:
        raise InputError("--sample, --all and --grid: every window is replayed", "leave them out")
    power_w = parse_power_w(play.traffic.power, what="--power-budget")
    latency_s = parse_time_s(play.traffic.latency, what="--latency-budget")
    name, rates = _rates(play.traffic)
    cases = window_cases(tables.subjects, rates, power_w, latency_s)
    require_solvers(cases, list(contenders))
    noise, tie = parse_share(play.noise, what="--noise"), parse_share(play.tie, what="--tie")
    answers = [best_answers(case.measured, case.problems).rows.tolist() for case in cases]
    solvable = sum(rate > 0 and row >= 0 for rows in answers for rate, row in zip(rates, rows, strict=True))
    busy = sum(rate > 0 for rate in rates)
    whole = format_duration(len(rates) * WINDOW_S)
    screen.info(f"{name}: {busy} windows with {min(rates):.3g} to {max(rates):.3g} requests per s, {whole} in all")
    screen.info(f"{power_w:g} W and {1e3 * latency_s:g} ms: {solvable} of {busy * len(cases)} windows are solvable")
    if any(row.duration_s is None for case in cases for row in case.rows.values()):
        screen.info(
            f"where a table does not say how long a measurement took: {MINIBATCHES} minibatches and {SETTLING_S:g} s"
        )
    runs = list(run_windows(cases, rates, contenders, seeds=play.seeds, noise=noise, tie=tie, window_s=WINDOW_S))
    told = {
        "family": "dynamic",
        "arrivals": name,
        "window_s": WINDOW_S,
        "problems": {"all": busy * len(cases), "solvable": solvable, "replayed": busy * len(cases)},
        "strategies": play.strategies,
        "seeds": play.seeds,
        "noise": noise,
        "tie": tie,
    }
    return runs, told


def _rates(traffic: TrafficOptions) -> tuple[str, tuple[float, ...]]:
    """Return the name of the trace and the rate of each window, 1/s."""
    from edgetune.artifacts.arrivals import read_arrivals
    from edgetune.search.evaluation.dynamic import WINDOWS, poisson_rates, repeated, scaled, window_rates

    mean = None if traffic.scale is None else parse_rate_per_s(traffic.scale, what="--scale")
    if mean is not None and mean <= 0:
        raise InputError(f"--scale must be above zero, not {traffic.scale}", "e.g. --scale 60/s")
    if traffic.arrivals is None:
        return f"Poisson, {mean or MEAN_PER_S:g}/s", poisson_rates(mean or MEAN_PER_S)
    arrivals = read_arrivals(traffic.arrivals)
    rates = repeated(arrivals.values, WINDOWS) if arrivals.rates else window_rates(arrivals.values)
    if not any(rates):
        raise InputError(f"{arrivals.name}: no requests arrive at all", "give a trace with some")
    return (arrivals.name, rates) if mean is None else (f"{arrivals.name} at {mean:g}/s", scaled(rates, mean))

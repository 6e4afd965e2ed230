"""Finds the power mode of least energy within a slowdown, e.g. 5 % slower than at the highest clocks.

Where most layers wait for memory, the GPU may run slower at no cost; where kernels wait for the CPU, the memory may.
Rooflines predict which. The few modes with the best predictions are measured, each measurement corrects the
predictions of the others, and the answer is the measured mode of least energy within the bound, or the reference.

The plan of a tuned mode, which other commands read.

A plan's problem has no word for "at most 5 % slower than that mode", so it says what is optimised (energy), and the
plan's conditions say ``tune``: the slowdown allowed, the reference and what was measured in it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgetune.artifacts.header import DataWarning, Header
from edgetune.artifacts.mode import SETTINGS, Mode
from edgetune.artifacts.plan import KIND, VERSION, Configuration, Plan, PlanFigures, SearchSummary
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, late_minibatch_s, mean_minibatch_s, together
from edgetune.artifacts.roofline import Roof
from edgetune.errors import EdgetuneError, InputError, NotRestoredError
from edgetune.stages.roofline.slowdown_forecast import Forecast, no_knob_above, reference_figures

Array = NDArray[np.float64]

Measure = Callable[[Mode], ProfileRow]
Verdict = Literal["within", "too slow", "no measurement"]

POINTS = 5
"""Modes measured besides the reference."""
NOISE = 0.02
"""Share by which two measurements of one point differ by chance: boards repeat to 2 to 3 %. So much of the allowed
slowdown is left free when a mode is chosen, and more than that a mode must save to be preferred to the reference."""
WILD = 0.5
"""Slowdown above which a mode is not measured, though it might keep the bound: it would take long and prove little."""
WORTH = 0.001
"""Share of the reference's energy that a mode must be expected to save beyond the best so far to be measured."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A mode that may be chosen.

    Args:
        mode: The mode.
        seconds: Time of one minibatch expected in it, s.
        energy_j: Energy of one minibatch expected, J.
        why: What its clocks do to what the time is made of, in words.
    """

    mode: Mode
    seconds: float
    energy_j: float
    why: str


@dataclass(frozen=True, slots=True)
class TriedMode:
    """A candidate that was measured.

    Args:
        candidate: What was expected when it was chosen.
        row: What was measured.
        verdict: Whether it keeps the bound.
        slowdown_share, saving_share: Against the reference, as measured; ``None`` where it is no measurement.
        again: Whether it was measured twice, ``row`` being the mean.
    """

    candidate: Candidate
    row: ProfileRow
    verdict: Verdict
    slowdown_share: float | None = None
    saving_share: float | None = None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of tuning.

    Args:
        reference: What was measured in the reference mode, of two measurements their mean.
        best: The measured candidate of least energy within the bound; ``None`` where the reference stands.
        tried: Everything measured besides the reference, in order.
        allowed_share: The slowdown that was allowed.
        measurements: How many there were, those of the reference included.
        model_error_share: How much of it was kept for the error of a model that was measured in a device's place.
    """

    reference: ProfileRow
    best: TriedMode | None
    tried: tuple[TriedMode, ...]
    allowed_share: float
    measurements: int
    model_error_share: float = 0.0

    @property
    def row(self) -> ProfileRow:
        """The measurement of the chosen mode."""
        return self.reference if self.best is None else self.best.row

    @property
    def slowdown_share(self) -> float:
        """Measured slowdown of the chosen mode, as a share of the reference's time."""
        return 0.0 if self.best is None else self.best.slowdown_share or 0.0

    @property
    def saving_share(self) -> float:
        """Measured saving of the chosen mode, as a share of the reference's energy."""
        return 0.0 if self.best is None else self.best.saving_share or 0.0


def tune(
    forecast: Forecast, measure: Measure, reference: ProfileRow, allowed_share: float, *, points: int = POINTS,
    noise: float = NOISE, model_error: float = 0.0, on_try: Callable[[TriedMode], None] | None = None,
) -> Tuned:  # fmt: skip
    """Measure the most promising modes, one at a time, and return the best measured one.

    The next to be measured is, among those expected to keep the bound, the one with the largest expected saving: how
    much less energy than the best so far it takes by each explanation of the forecast in which it keeps the bound.
    After those come modes that keep it by some explanation only. A mode with no knob above one that was too slow is
    not tried. It ends early when no mode is worth a measurement.

    Where measurements waver, the least of several readings is one that happened to be low. So the best mode and the
    reference are measured again, and if their means do not bear it out, the next best is.

    Args:
        forecast: From ``forecast_modes``, with what was measured in the reference mode.
        measure: Measures a mode. A row that is not ``ok`` and an ``EdgetuneError`` are reported and skipped; an error
            that leaves the device not restored ends the search.
        reference: What was measured in the reference mode.
        allowed_share: Slowdown allowed, e.g. 0.05.
        points: Modes to measure at most besides the reference, not counting what is measured again.
        noise: See ``NOISE``; 0 where measurements repeat exactly (a table).
        model_error: Error of the slowdowns of a device that is a model. The limit is kept so far from what it shows
            that the bound holds on the device itself; modes that it shows to be no slower are within.
        on_try: Called with every measurement.

    Raises:
        InputError: a slowdown or number of points that is none.
    """
    _check(allowed_share, points)
    limit = max(allowed_share - model_error, 0.0)
    tuning = _Tuning(measure, reference, limit, noise, on_try or (lambda _: None))
    while len(tuning.tried) < points and (candidate := _next(forecast, tuning)) is not None:
        tuning.take(candidate)
        forecast = _learnt(forecast, tuning.tried[-1])
    if noise and tuning.best is not None:
        tuning.confirm()
    return Tuned(tuning.reference, tuning.best, tuple(tuning.tried), allowed_share, tuning.measurements, model_error)


@dataclass(slots=True)
class _Tuning:
    """The measurements so far."""

    measure: Measure
    reference: ProfileRow
    allowed_share: float
    noise: float
    on_try: Callable[[TriedMode], None]
    tried: list[TriedMode] = field(default_factory=list)
    measurements: int = 1

    @property
    def best(self) -> TriedMode | None:
        """The mode of least energy within the bound that saves more than noise; of equal ones the faster."""
        within = [one for one in self.tried if one.verdict == "within" and (one.saving_share or 0.0) > self.noise]
        return min(within, key=lambda one: (-(one.saving_share or 0.0), one.slowdown_share or 0.0), default=None)

    def take(self, candidate: Candidate) -> None:
        """Measure a candidate."""
        self.tried.append(self._judged(candidate, self._row(candidate.mode)))
        self.on_try(self.tried[-1])

    def confirm(self) -> None:
        """Measure the reference again, then the best mode, until the best mode has been measured twice."""
        again = self._row(self.reference.mode)
        if _figures(again) is not None:
            self.reference = together([self.reference, again])
        self.tried = [self._judged(one.candidate, one.row) for one in self.tried]
        while (best := self.best) is not None and not best.again:
            row = self._row(best.candidate.mode)
            row = row if _figures(row) is None else together([best.row, row])
            known = replace(self._judged(best.candidate, row), again=True)
            self.tried[self.tried.index(best)] = known
            self.on_try(known)

    def _row(self, mode: Mode) -> ProfileRow:
        """Measure a mode; a failure is a row."""
        self.measurements += 1
        try:
            return self.measure(mode)
        except NotRestoredError:
            raise
        except EdgetuneError as error:
            of = self.reference
            failed = ProfileRow(of.workload, of.task, of.batch_size, None, device=of.device, status="failed")
            return replace(failed, reason=error.message, **{knob: getattr(mode, knob) for knob in SETTINGS})

    def _judged(self, candidate: Candidate, row: ProfileRow) -> TriedMode:
        figures = _figures(row)
        if figures is None:
            return TriedMode(candidate, row, "no measurement")
        seconds, energy_j = reference_figures(self.reference)
        slowdown = figures[0] / seconds - 1
        verdict: Verdict = "within" if slowdown <= self.allowed_share else "too slow"
        return TriedMode(candidate, row, verdict, slowdown, 1 - figures[1] / energy_j)


def _figures(row: ProfileRow) -> tuple[float, float] | None:
    """Return time, s, and energy, J, of one minibatch; ``None`` if one of them was not measured."""
    time_s, energy_j = mean_minibatch_s(row), energy_per_minibatch_j(row)
    return (time_s, energy_j) if row.status == "ok" and time_s and energy_j else None


def _check(allowed_share: float, points: int) -> None:
    if not 0 <= allowed_share < float("inf"):
        raise InputError(f"a slowdown of {allowed_share:.0%} cannot be allowed", "e.g. --tune 5%")
    if points < 1:
        raise InputError(f"the number of modes to measure must be at least 1, not {points}", "e.g. 5")


def _next(forecast: Forecast, tuning: _Tuning) -> Candidate | None:
    """Return the mode of largest expected saving; ``None`` where none is worth a measurement."""
    best, tried = tuning.best, tuning.tried
    to_beat_j = forecast.energy_j * (1 - (best.saving_share or 0.0 if best is not None else 0.0))
    savings_j = (to_beat_j - forecast.energies_j).clip(min=0.0)
    bound = 1 + tuning.allowed_share - min(tuning.noise, tuning.allowed_share / 2)
    gains = forecast.weights @ (savings_j * (forecast.ratios <= bound)) / forecast.energy_j
    gains[[forecast.column(mode) for mode in (forecast.reference, *(one.candidate.mode for one in tried))]] = 0.0
    too_slow = [one.candidate.mode for one in tried if one.verdict == "too slow"]
    for column in (gains > WORTH).nonzero()[0]:
        if any(no_knob_above(forecast.roofs[column].mode, mode) for mode in too_slow):
            gains[column] = 0.0
    ratios = forecast.weights @ forecast.ratios
    for at_most in (bound, 1 + WILD):
        gains_within = np.where(ratios <= at_most, gains, 0.0)
        column = _by(-gains_within, forecast)[0]
        if gains_within[column] > WORTH:
            return _candidate(forecast, column)
    return None


def _by(values: Array, forecast: Forecast) -> list[int]:
    """Return columns by ascending values, shares of the reference's energy. Of those equal to a tenth of a percent,
    which no law of the clocks tells apart, that with fewest knobs changed comes first: a knob of which nothing is
    expected is better left alone."""
    changed = [
        sum(getattr(r.mode, knob) != getattr(forecast.reference, knob) for knob in SETTINGS) for r in forecast.roofs
    ]
    return [int(column) for column in np.lexsort((changed, values.round(3)))]


def _candidate(forecast: Forecast, column: int) -> Candidate:
    ratio, energy_j = forecast.expected(column)
    roof = forecast.roofs[column]
    return Candidate(roof.mode, ratio * forecast.seconds, energy_j, _why(forecast, roof))


def _why(forecast: Forecast, roof: Roof) -> str:
    """Describe the effect of a mode on each part of the time and on power at rest."""
    here, shares = forecast.roofs[forecast.column(forecast.reference)], forecast.shares
    lower = no_knob_above(roof.mode, here.mode)  # inferred peaks err, yet lower clocks never help
    parts = [
        ("bound by compute", shares.compute, here.flops_per_s / roof.flops_per_s),
        ("bound by memory", shares.memory, here.bytes_per_s / roof.bytes_per_s),
    ]
    words = [
        f"{max(ratio, 1.0 if lower else 0.0) - 1:+.0%} time {name} ({share:.0%} of it)"
        for name, share, ratio in parts
        if share >= 0.005
    ]
    clocks = here.mode.cpu_mhz, roof.mode.cpu_mhz
    if shares.above >= 0.005 and clocks[0] and clocks[1]:
        words.append(f"{clocks[0] / clocks[1] - 1:+.0%} time launching kernels (at most {shares.above:.0%} of it)")
    return f"{', '.join(words)}; {roof.static_w:.3g} W at rest, not {here.static_w:.3g} W"


def _learnt(forecast: Forecast, one: TriedMode) -> Forecast:
    """Return the forecast corrected by a measurement; unchanged if the measurement failed."""
    if one.slowdown_share is None or one.saving_share is None:
        return forecast
    column = forecast.column(one.candidate.mode)
    return forecast.learn(column, 1 + one.slowdown_share, forecast.energy_j * (1 - one.saving_share))


STRATEGY = "roofline-tune"


def tuned_plan(
    tuned: Tuned, *, inputs: Mapping[str, Any] | None = None, conditions: Mapping[str, Any] | None = None,
    warnings: tuple[DataWarning, ...] = (), seed: int = 0,
) -> Plan:  # fmt: skip
    """Return the plan of the chosen mode, which was measured.

    Args:
        tuned: The answer.
        inputs, conditions, warnings: What the header says besides, e.g. the network, the device and its peaks.
        seed: Of a simulated device's noise.
    """
    row, reference = tuned.row, tuned.reference
    predicted = None
    if tuned.best is not None:
        found = tuned.best.candidate
        predicted = PlanFigures(found.seconds, found.energy_j / found.seconds, energy_j=found.energy_j)
    told = {
        "slowdown_share": tuned.allowed_share,
        "model_error_share": tuned.model_error_share,
        "reference": reference.mode.knobs(),
        "reference_minibatch_s": mean_minibatch_s(reference),
        "reference_energy_j": energy_per_minibatch_j(reference),
        "measured_slowdown_share": tuned.slowdown_share,
        "measured_saving_share": tuned.saving_share,
    }
    seconds, late_s = float(mean_minibatch_s(row) or 0.0), late_minibatch_s(row)
    return Plan(
        header=Header.new(
            KIND,
            VERSION,
            inputs=inputs,
            conditions={**(conditions or {}), "tune": told},
            warnings=(*warnings, *_data_warnings(tuned)),
        ),
        problem=Problem(row.task, objective="energy"),
        configuration=Configuration(row.mode, batch_size=row.batch_size),
        measured=PlanFigures(
            minibatch_s=seconds,
            power_w=row.power_w,
            latency_s=late_s if row.task == "infer" else None,
            throughput_per_s=row.batch_size / seconds,
            energy_j=energy_per_minibatch_j(row),
            minibatch_p95_s=None if late_s == seconds else late_s,
        ),
        search=SearchSummary(STRATEGY, tuned.measurements, seed),
        predicted=predicted,
    )


def _data_warnings(tuned: Tuned) -> tuple[DataWarning, ...]:
    """Return warnings about modes that could not be measured, and about a search that saves nothing."""
    found = []
    if failed := [one for one in tuned.tried if one.verdict == "no measurement"]:
        first = failed[0].row
        why = first.reason or (first.status if first.status != "ok" else "no power was measured")
        advice = f"modes could not be measured and were passed over, the first being {first.mode}: {why}"
        found.append(DataWarning("tune-points-failed", advice, {"points": float(len(failed))}))
    if tuned.best is None:
        advice = "no measured mode saves energy beyond noise within that slowdown; the reference stands"
        found.append(DataWarning("tune-saves-nothing", advice, {"slowdown_share": tuned.allowed_share}))
    return tuple(found)

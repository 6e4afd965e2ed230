"""Time to accuracy: what a batch size and a clock chosen together gain.

    time to accuracy = time per sample (batch, clock) x epochs to the target (batch) x samples of the data set

The first factor is a profile's, the second a convergence table's; the third is a constant and is left out. The usual
way sets the clock first, to the highest at which *every* network and batch size keeps the power budget, and then takes
the largest batch or the one that needs the fewest epochs: baselines 1 and 2 of the joint tuning of batch size and GPU
clock of 2025 that this follows (section 5.1). A third baseline, harder to beat, takes the batch that is fastest to
accuracy at that clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.problem import Problem
from edgetune.artifacts.profile import ProfileRow
from edgetune.artifacts.repeats import energy_per_minibatch_j, mean_minibatch_s
from edgetune.errors import InputError
from edgetune.stages.search.problem import judge


@dataclass(frozen=True, slots=True)
class TrainingChoice:
    """A batch size and mode to train in, with its time and energy to the target accuracy.

    Args:
        row: The measured row.
        time_s: Time to accuracy per sample of the data set, s.
        energy_j: Energy to accuracy per sample of the data set, J; ``None`` where no power was measured.
    """

    row: ProfileRow
    time_s: float
    energy_j: float | None


BASELINES = {
    "largest_batch": "its largest batch",
    "fewest_epochs": "its batch of fewest epochs",
    "best_batch": "its best batch",
}
"""Fields of ``Comparison`` that are baselines, and their words."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A choice compared with the baselines.

    Args:
        answer: The choice made.
        worst_case: The highest mode at which every network and batch size keeps the power budget; ``None`` when there
            is none.
        largest_batch: The largest batch in that mode.
        fewest_epochs: The batch that needs the fewest epochs, in that mode.
        best_batch: The best batch in that mode.
        why: Why there are no baselines.
    """

    answer: TrainingChoice
    worst_case: Mode | None = None
    largest_batch: TrainingChoice | None = None
    fewest_epochs: TrainingChoice | None = None
    best_batch: TrainingChoice | None = None
    why: str | None = None

    def times_faster(self, baseline: TrainingChoice) -> float:
        """Return the baseline's time over the answer's."""
        return baseline.time_s / self.answer.time_s

    def times_less_energy(self, baseline: TrainingChoice) -> float | None:
        """Return the baseline's energy over the answer's; ``None`` where one was not measured."""
        if baseline.energy_j is None or self.answer.energy_j is None:
            return None
        return baseline.energy_j / self.answer.energy_j


def epochs_of_noise(noise_scale: float, batch_sizes: Iterable[int]) -> dict[int, float]:
    """Return epochs by batch size from the noise scale of gradients, in samples, but for a factor common to all.

    In proportion to 1 + batch size / noise scale (McCandlish et al. 2018, equation 2.11).
    """
    return {size: 1 + size / noise_scale for size in batch_sizes}


def choice_of(problem: Problem, row: ProfileRow) -> TrainingChoice:
    """Return the choice of a measured row: its time (energy) per sample x epochs(batch)."""
    epochs = dict(problem.epochs_to_target)[row.batch_size]
    per_minibatch_j = energy_per_minibatch_j(row)
    energy_j = None if per_minibatch_j is None else per_minibatch_j / row.batch_size * epochs
    return TrainingChoice(row, (mean_minibatch_s(row) or 0.0) / row.batch_size * epochs, energy_j)


def compare(
    problem: Problem, rows: Iterable[ProfileRow], answer: ProfileRow, *, others: Iterable[ProfileRow] = ()
) -> Comparison:
    """Compare an answer with the baselines, all taken from measured rows.

    Args:
        problem: Of kind ``accuracy``.
        rows: A profile: the baselines need a mode that was measured at every batch size.
        answer: The chosen row.
        others: Training rows of other networks on the device, which have to keep the budget as well at the clock that
            is set first. A mode that lacks some of them is none for the baselines.

    Raises:
        InputError: no training row has a batch size with known epochs.
    """
    rows, chosen = _trained(problem, rows), choice_of(problem, answer)
    sizes = {row.batch_size for row in rows if row.status == "ok"}
    by_mode = _by_mode(rows)
    whole = {mode: found for mode, found in by_mode.items() if {row.batch_size for row in found} == sizes}
    if not whole:
        return Comparison(chosen, why="no mode was measured at every batch size")
    others = [row for row in others if row.task == "train" and row.status == "ok"]
    kinds, of_others = {(row.workload, row.batch_size) for row in others}, _by_mode(others)
    everything = {
        mode: [*found, *of_others.get(mode, ())]
        for mode, found in whole.items()
        if {(row.workload, row.batch_size) for row in of_others.get(mode, ())} == kinds
    }
    if not everything:
        return Comparison(chosen, why="no mode was measured with every network at every batch size")
    budgets = replace(problem, kind="train", objective=None, epochs_to_target=())
    safe = {
        mode: {row.batch_size: row for row in whole[mode]}
        for mode, found in everything.items()
        if all(judge(budgets, row).feasible for row in found)
    }
    if not safe:
        each = "network and batch size" if kinds else "batch size"
        return Comparison(chosen, why=f"in no mode does every {each} keep the power budget")
    mode, epochs = _highest(safe, max(sizes)), dict(problem.epochs_to_target)
    fewest = min(sorted(sizes, reverse=True), key=epochs.__getitem__)
    largest, fewest_epochs = (choice_of(problem, safe[mode][size]) for size in (max(sizes), fewest))
    return Comparison(chosen, mode, largest, fewest_epochs, _best(problem, safe[mode].values()))


def _by_mode(rows: Iterable[ProfileRow]) -> dict[Mode, list[ProfileRow]]:
    """Return the successful rows by mode."""
    found: dict[Mode, list[ProfileRow]] = {}
    for row in rows:
        if row.status == "ok":
            found.setdefault(row.mode, []).append(row)
    return found


def _trained(problem: Problem, rows: Iterable[ProfileRow]) -> list[ProfileRow]:
    epochs = dict(problem.epochs_to_target)
    found = [row for row in rows if row.task == "train" and row.batch_size in epochs]
    if not found:
        listed = ", ".join(map(str, sorted(epochs)))
        message = f"the profile has no training rows at batch sizes with known epochs ({listed})"
        raise InputError(message, "profile training at these sizes: edgetune profile MODEL --task train --batch-sizes")
    return found


def _best(problem: Problem, rows: Iterable[ProfileRow]) -> TrainingChoice | None:
    judged = [(judge(problem, row), row) for row in rows]
    within = [(judgement.objective, row) for judgement, row in judged if judgement.feasible]
    best = max(within, key=lambda pair: (pair[0] or 0.0, -(pair[1].power_w or 0.0)), default=None)
    return None if best is None else choice_of(problem, best[1])


def _highest(modes: Mapping[Mode, Mapping[int, ProfileRow]], largest: int) -> Mode:
    """Return the highest mode: by the only knob in which the modes differ, else by the time of the largest batch."""
    varying = [knob for knob in KNOBS if len({getattr(mode, knob) for mode in modes}) > 1]
    if len(varying) == 1:
        return max(modes, key=lambda mode: getattr(mode, varying[0]))
    return min(modes, key=lambda mode: mean_minibatch_s(modes[mode][largest]) or 0.0)

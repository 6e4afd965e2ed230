"""Time to accuracy on the command line: the epochs a search may count on, and the baselines beside its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence
    from edgetune.search.accuracy import Choice, Comparison


def trained_epochs(table: Convergence, sizes: Iterable[int], *, name: str, screen: Screen) -> dict[int, float]:
    """Return the epochs by batch size that a choice may be made by; those that missed the target are told of.

    Args:
        table: Of one task.
        sizes: Batch sizes to choose from. Those that miss the target are not in the answer: drop their points.
        name: The table's file.
        screen: For notes.

    Raises:
        InputError: it was never trained at one of the sizes, or misses the target at all of them.
    """
    from edgetune.artifacts.convergence import epochs_of
    from edgetune.search.accuracy import require_sizes

    found, sizes = epochs_of(table, name=name), set(sizes)
    require_sizes(sizes, [*found.by_batch, *found.absent], name=name, command=command_of(table, name))
    for size, why in found.absent.items():
        if size in sizes:
            screen.say(f"note: {name}, batch size {size}: {why}, so it is not chosen")
    return found.by_batch


def command_of(table: Convergence, path: str) -> str:
    """Return the command that adds batch sizes to a table, less the sizes."""
    import shlex

    header = table.header
    model = header.inputs.get("workload", {}).get("reference", "MODEL")
    words = ["edgetune", "profile", "--convergence", model]
    if "dataset" in header.inputs:
        words += ["--dataset", str(header.inputs["dataset"]["reference"])]
    if "options" in header.conditions:
        chosen = header.conditions["options"]
        words += ["--target-accuracy", f"{chosen['target_accuracy']:g}", "--max-epochs", str(chosen["max_epochs"])]
        words += ["--optimizer", chosen["optimizer"], "--learning-rate", f"{chosen['learning_rate']:g}"]
    return shlex.join([*words, "-o", path])


def tell_baselines(found: Comparison, screen: Screen) -> None:
    """Say how an answer does beside what people do who set the clock before the batch size."""
    if found.worst_case is None or found.largest_batch is None or found.best_batch is None:
        screen.say(f"note: no baselines to compare with: {found.why}")
        return
    screen.say(f"beside the highest mode in which every batch size keeps the budget, {found.worst_case}:")
    for what, choice in (("its largest batch", found.largest_batch), ("its best batch", found.best_batch)):
        screen.say(f"  {what} ({choice.row.batch_size}) takes {_ratios(found, choice)} of the answer")


def _ratios(found: Comparison, choice: Choice) -> str:
    less = found.times_less_energy(choice)
    energy = "" if less is None else f" and {less:.2f}x the energy"
    return f"{found.times_faster(choice):.2f}x the time{energy}"

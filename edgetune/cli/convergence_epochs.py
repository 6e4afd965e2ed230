"""Time to accuracy on the command line: the epochs by batch size that a choice may be made by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from edgetune.cli.screen import Screen

if TYPE_CHECKING:
    from edgetune.artifacts.convergence import Convergence


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
            screen.info(f"note: {name}, batch size {size}: {why}, so it is not chosen")
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

"""Training in the child process: steps, their loss, and a checkpoint that is whole or not there."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from pathlib import Path

from edgetune.artifacts import opened
from edgetune.artifacts.files import writing
from edgetune.errors import InputError

_HINT = "free space, or name another file"


class TrainingSession:
    """A training that is loaded.

    Args:
        step: Trains on one minibatch; what it returns is the loss, where that is a number.
        save: Writes what was learnt to a path; ``None`` where it cannot.
        checkpoint: Where that belongs; ``None`` where nobody wants it.

    Raises:
        InputError: no checkpoint can be written there, which is better known before the training than after it.
    """

    def __init__(
        self, step: Callable[[], object], save: Callable[[str], object] | None, checkpoint: Path | None
    ) -> None:
        self._step, self._save, self._checkpoint = step, save, checkpoint
        self._diverged: str | None = None
        if checkpoint is not None:
            with writing(checkpoint, _HINT) as output:
                opened.keep(output)
                output.try_folder()
        self.steps = 0
        """Minibatches that were learnt from."""

    @property
    def diverged(self) -> str | None:
        """That the loss is no number any more, and since when."""
        return self._diverged

    def train(self) -> float | None:
        """Train on one minibatch and return its loss, where the workload tells it."""
        loss = _number(self._step())
        self.steps += 1
        if loss is not None and not math.isfinite(loss) and self._diverged is None:
            self._diverged = f"training diverged: the loss is {loss} at step {self.steps}"
        return loss

    def save(self) -> Path | None:
        """Write the checkpoint and return where it is; an older one is replaced only by a whole one.

        Returns:
            Its path, another than asked for where another program has written that; ``None`` where none is wanted.

        Raises:
            InputError: it cannot be written, or what was learnt is worth nothing since training diverged.
        """
        if self._checkpoint is None or self._save is None:
            return None
        if self._diverged is not None:
            raise InputError(
                f"{self._diverged}, so no checkpoint was written", "lower the learning rate, or look at the data"
            )
        with writing(self._checkpoint, _HINT) as output:
            with output.written_by_path(mark="checkpoint") as path:
                self._save(str(path))
            return output.path


def _number(result: object) -> float | None:
    """Return a loss: a number, or an array of one number without dimensions, as PyTorch and NumPy have them."""
    if isinstance(result, bool):
        return None
    if isinstance(result, numbers.Real):
        return float(result)
    item = getattr(result, "item", None)
    if callable(item) and getattr(result, "ndim", None) == 0:
        return float(item())
    return None

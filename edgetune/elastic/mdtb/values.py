"""Numbers to put into a network's buffers, the same for the same seed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from edgetune.elastic.work import KernelSequence

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def values(network: KernelSequence, seed: int = 0) -> dict[str, npt.NDArray[np.float32]]:
    """Return what is in every buffer before a request: input and weights; the others are left to the kernels.

    Weights are drawn such that what goes through the network neither fades nor grows: their variance is one over the
    inputs of an output, and twice that where negative sums become zero (He et al. 2015).

    Args:
        network: Of ``networks``.
        seed: Of the generator.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    drawn: dict[str, npt.NDArray[np.float32]] = {}
    for buffer in network.buffers:
        if buffer.role not in ("input", "weights"):
            continue
        numbers = generator.standard_normal(buffer.shape, dtype=np.float32)
        if buffer.role == "weights":
            numbers *= np.float32(_spread(buffer.shape))
        drawn[buffer.name] = numbers
    return drawn


def _spread(shape: tuple[int, ...]) -> float:
    """Return the standard deviation of weights of this shape, outputs first; of biases it is small."""
    if len(shape) == 1:
        return 0.1
    return math.sqrt((2 if len(shape) == 4 else 1) / math.prod(shape[1:]))

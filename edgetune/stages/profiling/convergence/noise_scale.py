"""The simple noise scale of gradients: the batch size above which larger batches hardly need fewer steps.

    |G|^2 = (B |g_B|^2 - b |g_b|^2) / (B - b)            g_b: gradient over b samples, g_B: over B, of the same weights
    S     = (|g_b|^2 - |g_B|^2) / (1 / b - 1 / B)        G: the true gradient, S: the variance of that of one sample
    noise = S / |G|^2

McCandlish et al. (2018), "An empirical model of large-batch training", appendix A.1; both sums are unbiased, their
ratio is not, and is the better the more samples it is of. It grows while a network learns. The samples that a training
needs at batch size b are in proportion to 1 + b / noise (there equation 2.11, E = E_min (1 + B / B_crit)).
"""

import math
from collections.abc import Iterable
from typing import Any

from edgetune.errors import InputError
from edgetune.workloads.torch_required import require_torch


def gradient_noise_scale(parameters: Iterable[Any], losses: Iterable[Any], *, samples: int) -> float:
    """Return the simple noise scale at the present weights, in samples; infinity where noise hides the gradient.

    Neither the weights nor their ``.grad`` change.

    Args:
        parameters: Those that are trained, of a PyTorch module.
        losses: Mean losses of equally large parts of the data, one after the other; give a generator, so that one part
            is in memory at a time. At least two; sixteen parts of 64 samples are usual.
        samples: Samples of a part.

    Raises:
        InputError: fewer than two parts.
    """
    torch = require_torch()
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    total, of_parts, count = None, 0.0, 0
    for loss in losses:
        parts = torch.autograd.grad(loss, trained, allow_unused=True)
        gradient = torch.cat([part.detach().flatten() for part in parts if part is not None])
        total = gradient if total is None else total + gradient
        of_parts += float(gradient @ gradient)
        count += 1
    if total is None or count < 2:
        raise InputError(f"the noise of gradients needs two parts of data or more, not {count}", "give sixteen")
    small, large = of_parts / count, float(total @ total) / count**2
    signal = (count * large - small) / (count - 1)
    noise = (small - large) * samples / (1 - 1 / count)
    return noise / signal if signal > 0 else math.inf

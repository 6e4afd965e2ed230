"""How many background minibatches a policy runs between two batches of requests when they may run on while one fills.

    full            full            full             batches fill in one period each
    | answer | step | step |        |
                    |   answer | step | step | ...   the second step delays the next batch, within the latency budget

A step begins while no full batch waits, and a batch ``spare`` after it is full at the latest. With no time to spare a
step has to fit between two batches, and the whole number k of Fulcrum (2025, section 4) comes out; with as much to
spare as a step takes, no time is lost.
"""

import math

_SETTLING, _CYCLES = 16, 128
"""Batches before the mean and over which it is taken: whole steps per batch vary from one to the next."""
_STEPS, _MOST_CYCLES = 32, 4096
"""The mean is taken over the batches that go with so many steps, where that is more, up to a bound."""
_A_WHOLE = 1e-9
"""Rounding error allowed in a whole number of steps."""


def steps_per_batch(period_s: float, answer_s: float, step_s: float, spare_s: float) -> float:
    """Return the mean number of background steps per batch of requests, where none is started that delays one too long.

    Args:
        period_s: Time in which a batch fills, s.
        answer_s: Time that a batch takes, s.
        step_s: Time that a background step takes, s, above zero.
        spare_s: Longest delay of a full batch, s; infinite without a latency budget.
    """
    free_s = max(period_s - answer_s, 0.0)
    if spare_s >= step_s or free_s == 0:
        return free_s / step_s
    cycles = min(max(_CYCLES, math.ceil(_STEPS * step_s / free_s)), _MOST_CYCLES)
    delay_s, steps = 0.0, 0
    for cycle in range(_SETTLING + cycles):
        idle_s = period_s - delay_s - answer_s
        fit = math.floor((idle_s + spare_s) / step_s + _A_WHOLE)
        begin = math.ceil(idle_s / step_s - _A_WHOLE)  # before the next batch is full
        count = max(min(fit, begin), 0)
        delay_s = max(count * step_s - idle_s, 0.0)
        steps += count if cycle >= _SETTLING else 0
    return steps / cycles

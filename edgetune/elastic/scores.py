"""How well a piece fills what a critical kernel leaves, and whether cutting so small costs too many launches.

    blocks on SMs  [critical][critical][piece][piece][    ]      4 of 5
    threads on one [critical 512     ][piece 256 ][       ]      768 of 1024       WIScore = 4/5 x 768/1024

Source of both: Zhao et al., Miriam (SenSys 2023), section on the shrinking of the design space.
"""

from __future__ import annotations

from edgetune.elastic.gpu import Gpu


def balance_score(
    gpu: Gpu, critical_blocks: int, critical_threads: int, blocks: int, threads: int, *, literal: bool = False
) -> float:
    """Return WIScore: the share of multiprocessors in use, times the share of threads in use on one of them.

    Args:
        gpu: Which is shared.
        critical_blocks: Blocks of the critical kernel modulo multiprocessors: those of its last wave.
        critical_threads: Threads of one of its blocks.
        blocks: Physical blocks of the piece.
        threads: Threads of one of them.
        literal: As printed, where the threads of the piece stand twice and those of the critical kernel not at all.
    """
    beside = threads if literal else critical_threads
    return (critical_blocks + blocks) / gpu.sm_count * ((beside + threads) / gpu.threads_per_sm)


def overhead_score(pieces: int, launch_s: float, most_s: float) -> int:
    """Return OScore: 1 where launching all pieces takes no longer than is allowed, else 0.

    Args:
        pieces: Of the whole kernel.
        launch_s: What launching one takes, s.
        most_s: What launching all of them may take, s.
    """
    return 1 if pieces * launch_s <= most_s else 0

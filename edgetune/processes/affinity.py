"""CPU affinity of a process."""

from __future__ import annotations

import os
from collections.abc import Collection

from edgetune.errors import InputError


def pin(cpus: Collection[int], process: int | None = None) -> None:
    """Bind every thread of a process, by default this one, to ``cpus``; new threads inherit the affinity.

    Raises:
        InputError: the kernel refuses the CPUs.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    for task in os.listdir(f"/proc/{process or 'self'}/task"):
        try:
            os.sched_setaffinity(int(task), cpus)
        except ProcessLookupError:  # the thread has just ended
            continue
        except OSError as error:
            raise InputError(f"cannot run on CPUs {sorted(cpus)}: {error}", "ask for fewer cpu_cores") from None

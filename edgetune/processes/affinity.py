"""Which CPUs a process may run on."""

from __future__ import annotations

import os
from collections.abc import Collection

from edgetune.errors import InputError


def pin(cpus: Collection[int]) -> None:
    """Bind every thread of this process to ``cpus``; threads started later inherit it from the one that starts them.

    Raises:
        InputError: the kernel refuses it.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    for task in os.listdir("/proc/self/task"):
        try:
            os.sched_setaffinity(int(task), cpus)
        except ProcessLookupError:  # a thread that has just ended
            continue
        except OSError as error:
            raise InputError(f"cannot run on CPUs {sorted(cpus)}: {error}", "ask for fewer cpu_cores") from None

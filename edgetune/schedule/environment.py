"""Environment variables of processes that run networks: the same where layers are measured and where they are run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from edgetune.schedule.whole_session import Form

_EXACT_HEAP = {"MALLOC_MMAP_THRESHOLD_": "131072", "MALLOC_TRIM_THRESHOLD_": "131072"}
"""Activations go back to the system as soon as they are freed, instead of up to 64 MB when the C library sees fit
(mallopt(3)), so that what is held is what the loop knows of. Costs 5 to 8 % of the time of ResNet-18's layers, and
0.6 ms of 2.6 ms of a layer whose output is 3 MB."""
_QUIET = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Numpy computes nothing there, and its threads would each take memory."""


def environment_of(form: Literal["layers"] | Form) -> Mapping[str, str]:
    """Return what a process has beside the variables of its parent, by how it runs networks."""
    return {**_QUIET, **(_EXACT_HEAP if form == "layers" else {})}

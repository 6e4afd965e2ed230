"""Jobs: which networks are to be run together in how much memory, when requests for them come, and when they are due.

kind: jobs
version: 1
memory: 512MiB
workers: 2
networks: {faces: zoo:facenet, age: {model: models/age.onnx, inputs: face.npz}}
jobs:
- {name: photos, networks: [faces, age], arrivals: 'normal:2s', count: 150, deadline: 5s}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgetune.artifacts.header import Header

KIND = "jobs"
VERSION = 1

Choice = Literal["all", "uniform"]
DEFAULT_WORKERS = 2
"""Workers where nobody says how many: one loads while the other computes, which is what overlapping them needs."""
MOST_WORKERS = 1024
"""Each is a thread: more than the cores of any machine that this is for are a slip of the pen."""
DEFAULT_POLICY = "reuse"


@dataclass(frozen=True, slots=True)
class NetworkSource:
    """One of the networks, and where its layers come from.

    Args:
        name: What jobs call it; unique.
        reference: A workload (``zoo:NAME``, an ONNX file), or a folder made by ``edgetune schedule prepare``; ``None``
            where it is known by its costs alone, and can only be simulated.
        costs: A table of layers with their bytes and times.
        costs_name: What that table calls the network.
        inputs: ``.npz`` with a sample of each input; random ones without it.
        handler: Python file that makes samples and takes answers.
    """

    name: str
    reference: str | None = None
    costs: str | None = None
    costs_name: str | None = None
    inputs: str | None = None
    handler: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Requests that belong together.

    Args:
        name: Unique.
        networks: Names of the networks that every arrival is for; one request each.
        arrivals: How they come, in words (``batch``, ``normal:2s``, ``trace:FILE``, ...).
        times_s: When they come, s, ascending, where they are listed; ``arrivals`` is ``list`` then.
        intensity: Instead of a mean gap: the gap is what an arrival takes alone, divided by this.
        count: How often something arrives; ``None`` until the run ends.
        choose: Whether an arrival is for all networks, or for one of them at random.
        deadline_s: How long after its arrival a request is due, s; ``None`` where it is not.
        after: Names of jobs that must have been answered before this one may begin.
    """

    name: str
    networks: tuple[str, ...]
    arrivals: str = "batch"
    times_s: tuple[float, ...] = ()
    intensity: float | None = None
    count: int | None = None
    choose: Choice = "all"
    deadline_s: float | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Jobs:
    """Everything that is to run.

    Args:
        header: Of a file written by hand, its kind and version alone.
        networks: Not empty.
        jobs: Not empty; none waits for itself, directly or through others.
        memory_bytes: What may be held; ``None`` where the command line says.
        workers: How many tasks may run at a time.
        policy: Which one chooses their order.
        seed: Of random arrivals.
    """

    header: Header
    networks: tuple[NetworkSource, ...]
    jobs: tuple[Job, ...]
    memory_bytes: int | None = None
    workers: int = DEFAULT_WORKERS
    policy: str = DEFAULT_POLICY
    seed: int = 0

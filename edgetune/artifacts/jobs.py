"""Jobs: the networks to run together, their memory, and the arrivals and deadlines of requests.

kind: jobs
version: 1
memory: 512MiB
workers: 2
networks: {faces: zoo:facenet, age: {model: models/age.onnx, inputs: face.npz}}
jobs:
- {name: photos, networks: [faces, age], arrivals: 'normal:2s', count: 150, deadline: 5s}
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

from edgetune import limits
from edgetune.artifacts.artifact import Raw
from edgetune.artifacts.columns import NonNegativeInt, PositiveFloat, PositiveInt
from edgetune.artifacts.document import Document, head_of, stated, validated
from edgetune.artifacts.header import Header
from edgetune.artifacts.yaml_document import BlockMapping
from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.units import exact_bytes, exact_time, parse_bytes, parse_time_s

KIND = "jobs"
VERSION = 1

_DRAWN = re.compile(r"uniform(?::(?P<least>[1-9]\d{0,3})(?:-(?P<most>[1-9]\d{0,3}))?)?")
DEFAULT_WORKERS = 2
"""By default one worker loads while the other computes."""
MOST_WORKERS = 1024
"""Each is a thread: more than the cores of any machine that this is for are a slip of the pen."""
DEFAULT_POLICY = "reuse"


@dataclass(frozen=True, slots=True)
class NetworkSource:
    """One network and the source of its layers.

    Args:
        name: Its name in jobs; unique.
        reference: A workload (``zoo:NAME``, an ONNX file), or a folder made by ``edgetune schedule prepare``; ``None``
            if only its costs are known, so that it can only be simulated.
        costs: A table of layers with their bytes and times.
        costs_name: The network's name in that table.
        inputs: ``.npz`` with a sample of each input; random ones without it.
        handler: Python file that makes samples and receives answers.
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
        networks: Names of the networks; every arrival is one request to each.
        arrivals: The arrival process in words (``batch``, ``normal:2s``, ``trace:FILE``, ...).
        times_s: The listed arrival times, s, ascending; ``arrivals`` is then ``list``.
        intensity: Replaces a mean gap: the gap is the service time of one arrival alone, divided by this.
        count: Number of arrivals; ``None`` for arrivals until the run ends.
        choose: Whether an arrival is for all networks, or for one of them at random (``uniform``), for so many, no
            network twice (``uniform:3``), or for a number of them at random (``uniform:1-5``).
        deadline_s: Relative deadline of a request, s; ``None`` without one.
        after: Names of jobs that must be answered before this one begins.
    """

    name: str
    networks: tuple[str, ...]
    arrivals: str = "batch"
    times_s: tuple[float, ...] = ()
    intensity: float | None = None
    count: int | None = None
    choose: str = "all"
    deadline_s: float | None = None
    after: tuple[str, ...] = ()


_ZERO = re.compile(r"\s*0+(?:\.0*)?\s*(?:s|ms|us|µs|ns|min|m|h)\s*")


@dataclass(frozen=True, slots=True)
class _Network:
    model: str | None = None
    inputs: str | None = None
    handler: str | None = None
    costs: str | None = None
    network: str | None = None


@dataclass(frozen=True, slots=True)
class _Job:
    name: str
    networks: tuple[str, ...]
    arrivals: str | tuple[str, ...] = "batch"
    intensity: PositiveFloat | None = None
    count: PositiveInt | None = None
    choose: str = "all"
    deadline: str | None = None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Document:
    networks: Mapping[str, str | _Network]
    jobs: tuple[_Job, ...]
    memory: str | None = None
    workers: int = DEFAULT_WORKERS
    policy: str = DEFAULT_POLICY
    seed: NonNegativeInt = 0


@dataclass(frozen=True, slots=True)
class Jobs(Document):
    """Everything that is to run.

    Args:
        header: The header; of a file written by hand only kind and version.
        networks: The networks, not empty.
        jobs: The jobs, not empty; ``after`` has no cycles.
        memory_bytes: The memory budget; ``None`` leaves it to the command line.
        workers: Number of parallel tasks.
        policy: The policy that orders the tasks.
        seed: Seed of random arrivals.
    """

    header: Header
    networks: tuple[NetworkSource, ...]
    jobs: tuple[Job, ...]
    memory_bytes: int | None = None
    workers: int = DEFAULT_WORKERS
    policy: str = DEFAULT_POLICY
    seed: int = 0

    EXAMPLE = "see edgetune schedule run --help, and examples/scenarios"

    @classmethod
    def read(cls, raw: Raw, *, name: str) -> Jobs:
        """Return the validated jobs.

        Raises:
            InputError: an unknown or missing key, a value of the wrong type, an impossible number, an unknown network
                or job, two jobs of one name, a cycle of ``after``, times that do not ascend, or an invalid quantity.
                Two networks of one name are a duplicate key, which the YAML loader refuses.
        """
        header = Header.of(stated(raw.head), name=name)
        document = validated(raw.body, _Document, name=name, example=cls.EXAMPLE)
        limits.check("networks", len(document.networks), name)
        limits.check("jobs", len(document.jobs), name)
        if not document.networks:
            raise InputError(f"{name} names no networks", "e.g. networks: {faces: zoo:alexnet}")
        if document.workers < 1:
            raise InputError(f"{name}: workers is {document.workers}", "at least one task must be able to run, e.g. 2")
        if not document.jobs:
            raise InputError(f"{name} names no jobs", "e.g. jobs: [{name: photos, networks: [faces]}]")
        if not all([*document.networks, *(job.name for job in document.jobs)]):
            hint = "give it a name, e.g. networks: {faces: ...}"
            raise InputError(f"{name}: a network or a job has an empty name", hint)
        return cls(
            header,
            tuple(_network(key, said, name=name) for key, said in document.networks.items()),
            _checked([_job(job, document.networks, name=name) for job in document.jobs], name=name),
            None if document.memory is None else parse_bytes(document.memory, what=f"{name}: memory"),
            document.workers,
            document.policy,
            document.seed,
        )

    def document(self) -> dict[str, Any]:
        """Return the head, the budget and the workers, the networks, and a line for each job."""
        head = {key: value for key, value in head_of(self.header).items() if value}
        memory = {} if self.memory_bytes is None else {"memory": exact_bytes(self.memory_bytes)}
        whole = {"workers": self.workers, "policy": self.policy, "seed": self.seed}
        networks = BlockMapping({each.name: _network_words(each) for each in self.networks})
        return BlockMapping(
            {**head, **memory, **whole, "networks": networks, "jobs": [_job_words(job) for job in self.jobs]}
        )


def _network(key: str, said: str | _Network, *, name: str) -> NetworkSource:
    if isinstance(said, str):
        return NetworkSource(key, said)
    if (said.model is None) == (said.costs is None):
        hint = "write model: MODEL, or costs: FILE where it is simulated only"
        raise InputError(
            f"{name}: network {key} has {'both a model and' if said.model else 'neither a model nor'} costs", hint
        )
    if said.costs is not None and (said.inputs or said.handler):
        raise InputError(f"{name}: network {key} is simulated only, and has inputs or a handler", "leave them out")
    if said.model is not None and said.network is not None:
        raise InputError(f"{name}: network {key} has a model, and {said.network!r} is of costs", "leave network out")
    costs_name = None if said.costs is None else said.network or key
    return NetworkSource(key, said.model, said.costs, costs_name, said.inputs, said.handler)


def _job(said: _Job, networks: Iterable[str], *, name: str) -> Job:
    where = f"{name}, job {said.name}"
    if not said.networks:
        raise InputError(f"{where} names no networks", f"known here: {', '.join(networks)}")
    for network in said.networks:
        _refuse_unless_known(network, networks, f"{where} names an unknown network, {network!r}")
    if twice := sorted({each for each in said.networks if said.networks.count(each) > 1}):
        raise InputError(f"{where} names {twice[0]} twice", "name each network once; count gives more requests")
    listed = () if isinstance(said.arrivals, str) else said.arrivals
    times_s = tuple(_listed_s(word, where=where) for word in listed)
    for before_s, time_s in pairwise(times_s):
        if time_s < before_s:
            message = f"{where}: an arrival at {time_s:g} s follows one at {before_s:g} s"
            raise InputError(message, "put the arrivals in the order in which they come")
    if listed and said.count not in (None, len(listed)):
        raise InputError(f"{where}: count is {said.count}, and {len(listed)} arrivals are listed", "leave count out")
    if not listed and not isinstance(said.arrivals, str):
        raise InputError(f"{where}: arrivals is an empty list", "e.g. arrivals: [0s, 1.5s, 2s]")
    drawn = drawn_of(said.choose, where=where)
    if drawn is not None and not drawn[0] <= drawn[1] <= len(said.networks):
        message = f"{where}: {said.choose!r} of {len(said.networks)} networks"
        raise InputError(message, f"at most all of them, e.g. uniform:1-{len(said.networks)}")
    return Job(
        said.name,
        said.networks,
        said.arrivals if isinstance(said.arrivals, str) else "list",
        times_s,
        said.intensity,
        said.count,
        said.choose,
        None if said.deadline is None else parse_time_s(said.deadline, what=f"{where}: deadline"),
        said.after,
    )


def drawn_of(choose: str, *, where: str = "choose") -> tuple[int, int] | None:
    """Return how many networks an arrival is for, at least and at most, if they are drawn; ``None`` for all of them.

    Raises:
        InputError: the words are unknown.
    """
    if choose == "all":
        return None
    found = _DRAWN.fullmatch(choose)
    if found is None:
        raise InputError(f"{where}: choose is {choose!r}", "write all, uniform, uniform:3 or uniform:1-5")
    least = int(found["least"] or 1)
    return least, int(found["most"] or least)


def _listed_s(word: str, *, where: str) -> float:
    """Return a time since the begin of the run, s, which may be zero."""
    return 0.0 if _ZERO.fullmatch(word) else parse_time_s(word, what=f"{where}: a time in arrivals")


def _refuse_unless_known(word: str, words: Iterable[str], message: str) -> None:
    known = list(words)
    if word not in known:
        raise InputError(message, nearest(word, known, listed=f"known here: {', '.join(known)}"))


def _checked(jobs: Sequence[Job], *, name: str) -> tuple[Job, ...]:
    """Check that names are unique and ``after`` has no cycles, and return the jobs."""
    by_name = {job.name: job for job in jobs}
    if len(by_name) < len(jobs):
        twice = next(job.name for job in jobs if sum(other.name == job.name for other in jobs) > 1)
        raise InputError(f"{name}: two jobs are called {twice}", "give each a name of its own")
    for job in jobs:
        for other in job.after:
            message = f"{name}, job {job.name} waits for an unknown job, {other!r}"
            _refuse_unless_known(other, by_name, message)
    try:
        TopologicalSorter({job.name: job.after for job in jobs}).prepare()
    except CycleError as error:
        circle = " is after ".join(reversed(error.args[1]))
        raise InputError(f"{name}: jobs wait for each other: {circle}", "break the circle") from None
    return tuple(jobs)


def _network_words(network: NetworkSource) -> str | dict[str, Any]:
    words = {
        "model": network.reference,
        "inputs": network.inputs,
        "handler": network.handler,
        "costs": network.costs,
        "network": network.costs_name,
    }
    said = {key: value for key, value in words.items() if value is not None}
    return said["model"] if said.keys() == {"model"} else said


def _job_words(job: Job) -> dict[str, Any]:
    words = {
        "name": job.name,
        "networks": list(job.networks),
        "arrivals": [exact_time(time_s) for time_s in job.times_s] if job.times_s else job.arrivals,
        "intensity": job.intensity,
        "count": None if job.times_s else job.count,
        "choose": None if job.choose == "all" else job.choose,
        "deadline": None if job.deadline_s is None else exact_time(job.deadline_s),
        "after": list(job.after) or None,
    }
    return {key: value for key, value in words.items() if value is not None}

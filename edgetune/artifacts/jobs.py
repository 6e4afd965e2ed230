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
from typing import Any, ClassVar

from edgetune import limits
from edgetune.artifacts.artifact import Raw
from edgetune.artifacts.columns import Bytes, Instant, NonNegativeInt, PositiveFloat, PositiveInt, Seconds
from edgetune.artifacts.document import WITH_UNITS, Document, named
from edgetune.artifacts.header import Header
from edgetune.artifacts.yaml_document import BlockMapping
from edgetune.choices import nearest
from edgetune.errors import InputError

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
        model: A workload (``zoo:NAME``, an ONNX file), or a folder made by ``edgetune schedule prepare``; ``None``
            if only its costs are known, so that it can only be simulated.
        inputs: ``.npz`` with a sample of each input; random ones without it.
        costs: A table of layers with their bytes and times.
        network: The network's name in that table; ``None`` for ``name``.
    """

    name: str
    model: str | None = None
    inputs: str | None = None
    costs: str | None = None
    network: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """Requests that belong together.

    Args:
        name: Unique.
        networks: Names of the networks; every arrival is one request to each.
        arrivals: The arrival process in words (``batch``, ``normal:2s``, ``trace:FILE``, ...), or ascending times, s.
        intensity: Replaces a mean gap: the gap is the service time of one arrival alone, divided by this.
        count: Number of arrivals; ``None`` for arrivals until the run ends.
        choose: Whether an arrival is for all networks, or for one of them at random (``uniform``), for so many, no
            network twice (``uniform:3``), or for a number of them at random (``uniform:1-5``).
        deadline_s: Relative deadline of a request, s; ``None`` without one.
        after: Names of jobs that must be answered before this one begins.
    """

    name: str
    networks: tuple[str, ...]
    arrivals: str | tuple[Instant, ...] = "batch"
    intensity: PositiveFloat | None = None
    count: PositiveInt | None = None
    choose: str = "all"
    deadline_s: Seconds | None = None
    after: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The arrival process in words: ``list`` for listed times."""
        return self.arrivals if isinstance(self.arrivals, str) else "list"

    @property
    def times_s(self) -> tuple[float, ...]:
        """The listed times, s."""
        return () if isinstance(self.arrivals, str) else self.arrivals


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
    memory_bytes: Bytes | None = None
    workers: PositiveInt = DEFAULT_WORKERS
    policy: str = DEFAULT_POLICY
    seed: NonNegativeInt = 0

    __pydantic_config__: ClassVar[Mapping[str, Any]] = WITH_UNITS
    EXAMPLE = "see edgetune schedule run --help, and examples/scenarios"

    @classmethod
    def read(cls, raw: Raw, *, name: str) -> Jobs:
        """Return the validated jobs.

        Raises:
            InputError: an unknown or missing key, a value of the wrong type, an impossible number, an unknown network
                or job, two jobs of one name, a cycle of ``after``, times that do not ascend, or an invalid quantity.
                Two networks of one name are a duplicate key, which the YAML loader refuses.
        """
        body = dict(raw.body)
        if "networks" in body:
            body["networks"] = named(body["networks"], "model", name=name, key="networks")
        read = super(Jobs, cls).read(Raw(raw.head, body), name=name)
        limits.check("networks", len(read.networks), name)
        limits.check("jobs", len(read.jobs), name)
        if not read.networks:
            raise InputError(f"{name} names no networks", "e.g. networks: {faces: zoo:alexnet}")
        if not read.jobs:
            raise InputError(f"{name} names no jobs", "e.g. jobs: [{name: photos, networks: [faces]}]")
        if "" in (*(each.name for each in read.networks), *(each.name for each in read.jobs)):
            hint = "give it a name, e.g. networks: {faces: ...}"
            raise InputError(f"{name}: a network or a job has an empty name", hint)
        for network in read.networks:
            _check_network(network, name=name)
        for job in read.jobs:
            _check_job(job, [each.name for each in read.networks], where=f"{name}, job {job.name}")
        _check_names(read.jobs, name=name)
        return read

    def document(self) -> dict[str, Any]:
        """Return the head, the budget and the workers, the networks, and a line for each job."""
        keys = self.keys("memory_bytes", "workers", "policy", "seed", "networks", "jobs")
        networks = {each.pop("name"): each for each in keys["networks"]}
        short = {name: said["model"] if said.keys() == {"model"} else said for name, said in networks.items()}
        return BlockMapping({**keys, "networks": BlockMapping(short)})


def _check_network(network: NetworkSource, *, name: str) -> None:
    where = f"{name}: network {network.name}"
    if (network.model is None) == (network.costs is None):
        hint = "write model: MODEL, or costs: FILE where it is simulated only"
        raise InputError(f"{where} has {'both a model and' if network.model else 'neither a model nor'} costs", hint)
    if network.costs is not None and network.inputs:
        raise InputError(f"{where} is simulated only, and has inputs", "leave them out")
    if network.model is not None and network.network is not None:
        raise InputError(f"{where} has a model, and {network.network!r} is of costs", "leave network out")


def _check_job(job: Job, networks: Sequence[str], *, where: str) -> None:
    if not job.networks:
        raise InputError(f"{where} names no networks", f"known here: {', '.join(networks)}")
    for network in job.networks:
        _refuse_unless_known(network, networks, f"{where} names an unknown network, {network!r}")
    if twice := sorted({each for each in job.networks if job.networks.count(each) > 1}):
        raise InputError(f"{where} names {twice[0]} twice", "name each network once; count gives more requests")
    for before_s, time_s in pairwise(job.times_s):
        if time_s < before_s:
            message = f"{where}: an arrival at {time_s:g} s follows one at {before_s:g} s"
            raise InputError(message, "put the arrivals in the order in which they come")
    if not job.arrivals:
        raise InputError(f"{where}: arrivals is empty", "e.g. arrivals: [0s, 1.5s, 2s]")
    if job.times_s and job.count not in (None, len(job.times_s)):
        message = f"{where}: count is {job.count}, and {len(job.times_s)} arrivals are listed"
        raise InputError(message, "leave count out")
    drawn = drawn_of(job.choose, where=where)
    if drawn is not None and not drawn[0] <= drawn[1] <= len(job.networks):
        message = f"{where}: {job.choose!r} of {len(job.networks)} networks"
        raise InputError(message, f"at most all of them, e.g. uniform:1-{len(job.networks)}")


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


def _refuse_unless_known(word: str, known: Iterable[str], message: str) -> None:
    if word not in known:
        raise InputError(message, nearest(word, known, listed=f"known here: {', '.join(known)}"))


def _check_names(jobs: Sequence[Job], *, name: str) -> None:
    """Check that names are unique and ``after`` has no cycles."""
    names = [job.name for job in jobs]
    if twice := next((each for each in names if names.count(each) > 1), None):
        raise InputError(f"{name}: two jobs are called {twice}", "give each a name of its own")
    for job in jobs:
        for other in job.after:
            message = f"{name}, job {job.name} waits for an unknown job, {other!r}"
            _refuse_unless_known(other, names, message)
    try:
        TopologicalSorter({job.name: job.after for job in jobs}).prepare()
    except CycleError as error:
        circle = " is after ".join(reversed(error.args[1]))
        raise InputError(f"{name}: jobs wait for each other: {circle}", "break the circle") from None

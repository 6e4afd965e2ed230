"""Measures what launching costs on this GPU and host, with kernels that do nothing.

    host   launch|launch|...|launch|record|query|query|        call, record and query: host time of each
    GPU       .....[shard 1][shard 2]...[shard n]               over: until the first ends; shards: until all end

    host   launch|query|query|decide|launch|...
    GPU       ....[kernel]              ....[kernel]            reaction: from the end of one to that of the next

The overhead of a kernel cut into n shards is the time that n empty shards take longer than one. Pieces that are shorter
than a reaction leave the GPU waiting for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

from edgetune.artifacts.document import validated
from edgetune.artifacts.files import read_source, write_atomically
from edgetune.artifacts.yaml_document import BlockMapping, dump_yaml, load_yaml
from edgetune.errors import InputError
from edgetune.stages.elastic.backend import LaunchRecord
from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.building import Build, compiled_image
from edgetune.stages.elastic.cuda.context import Context, GpuFacts
from edgetune.stages.elastic.cuda.driver import Packed
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.forms import Form, Forms
from edgetune.stages.elastic.gpu import Resources
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.view import Decision, LaunchPiece, View, upcoming
from edgetune.stages.elastic.work import Call, GpuTask, KernelSequence, Logical
from edgetune.stats import median
from edgetune.units import NS
from edgetune.version import __version__

_CALLS = 50
_DURATION_S = 0.1
_NEEDS = Resources(registers_per_thread=0)


class _OneByOne:
    """Launches a kernel when the one before it has ended."""

    name: ClassVar[str] = "one by one"

    def decide(self, view: View) -> Sequence[Decision]:
        """Return the next kernel."""
        (state,) = view.tasks
        found = None if state.in_flight else upcoming(state)
        return () if found is None else (LaunchPiece(state.task.name, found[1]),)


def reaction_s(context: Context, image: bytes, kernel: str) -> float:
    """Return the median time from the end of a kernel until the end of an empty one that follows it, s.

    Args:
        context: The GPU; nothing else is to run on it meanwhile.
        image: Compiled for it.
        kernel: One of it that does nothing.
    """
    with context.scope():
        program, task = _empty(context, image, kernel, calls=_CALLS)
        backend = CudaBackend(context, {task.name: program}, [task])
        loop = ElasticLoop(_OneByOne(), backend, [task], gpu=context.facts.gpu, duration_s=_DURATION_S)
        loop.run()
    return _between_ends_s(loop.launches)


def _empty(context: Context, image: bytes, kernel: str, *, calls: int) -> tuple[Program, GpuTask]:
    """Return a task of empty kernels, and its program, warmed up."""
    call = Call(kernel, Logical((1, 1, 1), (1, 1, 1)), elastic=False)
    network = KernelSequence("empty", (call,) * calls)
    program = Program(context, network, Build(image, {kernel: Forms(Form(kernel, _NEEDS), {})}))
    program.warm_up(context.stream())
    return program, GpuTask("empty", network, arrivals="closed")


def _between_ends_s(launches: Sequence[LaunchRecord]) -> float:
    return median([later.ended_ns - earlier.ended_ns for earlier, later in pairwise(launches)]) / NS


EMPTY_KERNEL, TURNS_KERNEL = "edgetune_empty", "edgetune_turns"
SOURCE = f"""extern "C" __global__ void {EMPTY_KERNEL}() {{}}
extern "C" __global__ void {TURNS_KERNEL}(unsigned int count, unsigned int columns) {{
    for (unsigned int at = blockIdx.x; at < count; at += gridDim.x) {{
        if (at / columns == count) __trap();  // never, but the division of a grid of two dimensions stays
        __syncthreads();
    }}
}}
"""

KIND, VERSION = "launch_costs", 3
SHARDS = (1, 2, 4, 8, 16, 32, 64)
"""Up to the halvings of a grid that a shrinker considers."""
TURNS = (1, 64, 4096)
"""Logical blocks that a persistent block goes through; the last is the most that a shrinker allows by default."""
_TURNING_THREADS = 256
_REPEATS = 200


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """Costs of launching, medians.

    Args:
        gpu, uuid, compute_capability: Of the GPU.
        sm_count: Its multiprocessors in use.
        cuda: Version of CUDA that its driver offers.
        at: When it was measured.
        edgetune: The version that measured it.
        reaction_s: From the end of a kernel until the end of an empty one that the loop launches in answer, s.
        shards_s: From the first launch until the host sees that all are over, by number of empty launches, s.
        turns_s: From a launch of one persistent block until the host sees that it is over, by number of logical blocks
            that it goes through, s.
    """

    gpu: str
    uuid: str
    compute_capability: str
    sm_count: int
    cuda: str
    at: str
    edgetune: str
    reaction_s: float
    shards_s: Mapping[int, float]
    turns_s: Mapping[int, float]

    @property
    def turn_s(self) -> float:
        """Time in which a persistent block goes on to its next logical one, s: mean over the most measured."""
        most = max(self.turns_s)
        return max(0.0, self.turns_s[most] - self.turns_s[1]) / (most - 1)

    @property
    def shard_s(self) -> float:
        """Time of one more shard, s: mean over the most that were measured."""
        most = max(self.shards_s)
        return (self.shards_s[most] - self.shards_s[1]) / (most - 1)


def calibrate(context: Context, image: bytes) -> LaunchCosts:
    """Measure what launching costs; takes a fraction of a second, while nothing else is to run on the GPU.

    Args:
        context: The GPU.
        image: ``SOURCE``, compiled for it.
    """
    bench = _Bench(context, image)
    bench.shards_ns(SHARDS[-1])  # loads the kernel and wakes the GPU up
    facts = context.facts
    return LaunchCosts(
        gpu=facts.gpu.name,
        uuid=facts.uuid,
        compute_capability=facts.gpu.compute_capability,
        sm_count=facts.gpu.sm_count,
        cuda=facts.driver,
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        edgetune=__version__,
        reaction_s=reaction_s(context, image, EMPTY_KERNEL),
        shards_s={count: bench.median_s(partial(bench.shards_ns, count)) for count in SHARDS},
        turns_s={count: bench.median_s(partial(bench.turns_ns, count)) for count in TURNS},
    )


def compiled_for(context: Context) -> bytes:
    """Return ``SOURCE`` compiled for the GPU of a context.

    Raises:
        InputError: NVRTC does not know the GPU, or is newer than the driver.
        DeviceError: NVRTC is missing.
    """
    return compiled_image(SOURCE, context, "calibration")


class _Bench:
    """Empty launches on a stream, timed by the host."""

    def __init__(self, context: Context, image: bytes) -> None:
        self._driver, self._context, self._now_ns = context.driver, context, context.now_ns
        self._stream, self._event = context.stream(), context.event()
        module = context.load(image)
        self._function, self._turns = (context.function(module, each) for each in (EMPTY_KERNEL, TURNS_KERNEL))

    def median_s(self, measure_ns: Callable[[], int]) -> float:
        """Return the median of repeated measurements, s."""
        return median([measure_ns() for _ in range(_REPEATS)]) / NS

    def shards_ns(self, count: int) -> int:
        """Return how long so many launches take until the host sees that they are over."""

        def launch_and_wait() -> None:
            for _ in range(count):
                self._launch()
            self._record()
            self._context.await_event(self._event)

        return self._timed(launch_and_wait)

    def turns_ns(self, count: int) -> int:
        """Return how long a persistent block takes for so many logical ones that do nothing, as the host sees it."""
        numbers = Packed([each.to_bytes(4, "little") for each in (count, _TURNING_THREADS)], None)

        def launch_and_wait() -> None:
            arguments = (1, 1, 1, _TURNING_THREADS, 1, 1, 0, self._stream, numbers.address, 0)
            self._driver.call("cuLaunchKernel", self._turns, *arguments)
            self._record()
            self._context.await_event(self._event)

        return self._timed(launch_and_wait)

    def _timed(self, action: Callable[[], object]) -> int:
        begin_ns = self._now_ns()
        action()
        return self._now_ns() - begin_ns

    def _launch(self) -> None:
        self._driver.call("cuLaunchKernel", self._function, 1, 1, 1, 1, 1, 1, 0, self._stream, 0, 0)

    def _record(self) -> None:
        self._driver.call("cuEventRecord", self._event, self._stream)


def write_costs(costs: LaunchCosts, path: Path) -> None:
    """Write costs as YAML.

    Raises:
        InputError: the file cannot be written.
    """
    document = BlockMapping({"kind": KIND, "version": VERSION, **asdict(costs)})
    document |= {"shards_s": dict(costs.shards_s), "turns_s": dict(costs.turns_s)}
    write_atomically(dump_yaml(document).encode(), path)


def read_costs(path: Path) -> LaunchCosts:
    """Read costs.

    Raises:
        InputError: the file is missing, or holds something else.
    """
    document = load_yaml(read_source(path).decode(errors="replace"), name=str(path))
    found = (document.pop("kind", None), document.pop("version", None)) if isinstance(document, dict) else None
    hint = "`edgetune schedule kernels calibrate` writes such a file"
    if found != (KIND, VERSION):
        raise InputError(f"{path} does not hold launch costs of version {VERSION}", hint)
    costs = validated(document, LaunchCosts, name=str(path), example=hint)
    if not all(1 in counted and len(counted) > 1 for counted in (costs.shards_s, costs.turns_s)):
        raise InputError(f"{path} holds incomplete launch costs", "calibrate again")
    return costs


def costs_of(facts: GpuFacts, folder: Path) -> LaunchCosts | None:
    """Return the kept costs of a GPU with this driver and number of multiprocessors; ``None``: there are none.

    Raises:
        InputError: the file is damaged.
    """
    path = costs_path(facts, folder)
    if not path.exists():
        return None
    costs = read_costs(path)
    return costs if costs.cuda == facts.driver else None


def costs_path(facts: GpuFacts, folder: Path) -> Path:
    """Return the file of the costs of a GPU in a folder."""
    return folder / f"{facts.uuid}-{facts.gpu.sm_count}sm.yaml"

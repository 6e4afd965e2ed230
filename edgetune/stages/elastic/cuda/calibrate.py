"""Measures what launching costs on this GPU and host, with kernels that do nothing.

    host   launch|launch|...|launch|query|query|
    GPU       .....[shard 1][shard 2]...[shard n]               shards: until all end

    host   launch|query|query|decide|launch|...
    GPU       ....[kernel]              ....[kernel]            reaction: from the end of one to that of the next

The overhead of a kernel cut into n shards is the time that n empty shards take longer than one. Pieces that are shorter
than a reaction leave the GPU waiting for the host.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

from edgetune.artifacts.document import STRICT, validated
from edgetune.artifacts.files import read_source, write_atomically
from edgetune.artifacts.yaml_document import BlockMapping, dump_yaml, load_yaml
from edgetune.errors import InputError
from edgetune.stages.elastic.cuda.backend import CudaBackend
from edgetune.stages.elastic.cuda.blocks import OneBlock
from edgetune.stages.elastic.cuda.building import Build, compiled_image
from edgetune.stages.elastic.cuda.context import Context, GpuFacts
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.forms import Form, Forms
from edgetune.stages.elastic.gpu import Call, GpuTask, KernelSequence, Logical, Resources
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.view import Decision, LaunchPiece, View, upcoming
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


def reaction_s(context: Context, image: bytes) -> float:
    """Return the median time from the end of a kernel until the end of an empty one that follows it, s.

    Args:
        context: The GPU; nothing else is to run on it meanwhile.
        image: ``SOURCE``, compiled for it.
    """
    call = Call(EMPTY_KERNEL, Logical((1, 1, 1), (1, 1, 1)), elastic=False)
    task = GpuTask("empty", KernelSequence("empty", (call,) * _CALLS), arrivals="closed")
    with context.scope():
        build = Build(image, {EMPTY_KERNEL: Forms(Form(EMPTY_KERNEL, _NEEDS), {})})
        program = Program(context, task.network, build)
        program.warm_up(context.stream())
        backend = CudaBackend(context, {task.name: program}, [task])
        loop = ElasticLoop(_OneByOne(), backend, [task], gpu=context.facts.gpu, duration_s=_DURATION_S)
        loop.run()
    return median([later.ended_ns - earlier.ended_ns for earlier, later in pairwise(loop.launches)]) / NS


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

    __pydantic_config__: ClassVar[Mapping[str, Any]] = STRICT

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


def calibrate(context: Context, image: bytes | None = None) -> LaunchCosts:
    """Measure what launching costs; takes a fraction of a second, while nothing else is to run on the GPU.

    Args:
        context: The GPU.
        image: ``SOURCE``, compiled for it; ``None``: it is compiled.

    Raises:
        InputError: NVRTC does not know the GPU, or is newer than the driver.
        DeviceError: NVRTC is missing.
    """
    if image is None:
        image = compiled_image(SOURCE, context, "calibration")
    empty, facts = OneBlock(context, image, EMPTY_KERNEL), context.facts
    turns = {
        count: OneBlock(
            context, image, TURNS_KERNEL, *(each.to_bytes(4, "little") for each in (count, _TURNING_THREADS)),
            threads=_TURNING_THREADS,
        )
        for count in TURNS
    }  # fmt: skip
    return LaunchCosts(
        gpu=facts.gpu.name,
        uuid=facts.uuid,
        compute_capability=facts.gpu.compute_capability,
        sm_count=facts.gpu.sm_count,
        cuda=facts.driver,
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        edgetune=__version__,
        reaction_s=reaction_s(context, image),
        shards_s={count: _median_s(context, empty, count) for count in SHARDS},
        turns_s={count: _median_s(context, each) for count, each in turns.items()},
    )


def _median_s(context: Context, kernel: OneBlock, launches: int = 1) -> float:
    """Return the median time that so many launches take until the host sees that they are over, s."""

    def taken_ns() -> int:
        begin_ns = context.now_ns()
        for _ in range(launches):
            kernel.launch(stream)
        context.driver.call("cuEventRecord", event, stream)
        context.await_event(event)
        return context.now_ns() - begin_ns

    with context.scope():
        stream, event = context.stream(), context.event()
        return median([taken_ns() for _ in range(_REPEATS + 1)][1:]) / NS  # the first loads the kernel


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

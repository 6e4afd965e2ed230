"""What a search may choose from: the points of a table, or those of a network on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.cli.choices import nearest
from edgetune.cli.options import POINT_TIMEOUT
from edgetune.errors import EdgetuneError, InputError

if TYPE_CHECKING:
    from edgetune.artifacts.header import Caution
    from edgetune.artifacts.profile import Point, ProfileRow, Task
    from edgetune.devices.recorded import RecordedTable
    from edgetune.profiling.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Live:
    """How to measure a network, as written on the command line."""

    device: str | None
    modes: str | None
    batch_sizes: str | None
    task: str | None
    dimensions: tuple[str, ...] = ()
    precision: str = "fp32"
    ops: str | None = None
    inputs: str | None = None
    point_timeout: str = POINT_TIMEOUT

    def given(self) -> list[str]:
        """Return the options that only make sense with a network."""
        named = {
            "--device": self.device,
            "--modes": self.modes,
            "--batch-sizes": self.batch_sizes,
            "--dim": self.dimensions or None,
            "--precision": None if self.precision == "fp32" else self.precision,
            "--ops": self.ops,
            "--inputs": self.inputs,
            "--point-timeout": None if self.point_timeout == POINT_TIMEOUT else self.point_timeout,
        }
        return [name for name, value in named.items() if value is not None]


@dataclass(frozen=True, slots=True)
class Offer:
    """Points to choose from and how to measure one, ``free`` when that is a look-up.

    ``expect`` says what measuring all of them would take; ``inputs``, ``conditions`` and ``warnings`` go into headers.
    ``no_power`` is why the device cannot measure power, where it cannot; ``defect`` what every measurement failed of.
    """

    points: Sequence[Point]
    measure: Callable[[Point], ProfileRow]
    task: Task
    described: str
    simulated: bool
    free: bool
    inputs: Mapping[str, Any]
    conditions: Mapping[str, Any]
    warnings: tuple[Caution, ...] = ()
    expect: Callable[[], Estimate] | None = None
    no_power: str | None = None
    defect: Callable[[], EdgetuneError | None] = lambda: None


@contextmanager
def open_offer(source: str, live: Live, *, workload: str | None, task: str | None, seed: int) -> Iterator[Offer]:
    """Offer the points of a table, or with ``--device`` (or a reference that names a network) those of a network."""
    if live.device is not None or source.startswith("zoo:") or Path(source).suffix in (".onnx", ".py"):
        with _network(source, live, seed) as offer:
            yield offer
    elif live.given():
        raise InputError(f"{' and '.join(live.given())}: only for a network", "leave them out, or name a device")
    else:
        yield _table(source, workload, task)


def _table(source: str, workload: str | None, task: str | None) -> Offer:
    import hashlib

    from edgetune.artifacts.files import name_of, read_source
    from edgetune.artifacts.io import from_bytes
    from edgetune.devices.recorded import RecordedTable

    source = source.removeprefix("recorded:")
    data, name = read_source(source), name_of(source)
    profile = from_bytes(data, kind="profile", name=name)
    table = RecordedTable.of(profile.rows, name=name)
    workload, chosen = _choose(table, workload, task)
    origin = {"profile": {"name": name, "sha256": hashlib.sha256(data).hexdigest()}}
    inputs = {"workload": {"name": workload}, **profile.header.inputs}
    return Offer(
        points=[row.point for row in table.rows if row.workload == workload and row.task == chosen],
        measure=table.lookup,
        task=chosen,
        described=f"{workload} {chosen} in {name}",
        simulated=profile.header.simulated,
        free=True,
        inputs=inputs if "table" in inputs else inputs | origin,  # a foreign table names itself
        conditions=profile.header.conditions,
        warnings=(*profile.header.warnings, *table.cautions),
    )


def _choose(table: RecordedTable, workload: str | None, task: str | None) -> tuple[str, Task]:
    """Return the workload and task to search for: those asked for, else the only ones there."""
    here = [(offer.workload, offer.task) for offer in table.offers]
    names = sorted({name for name, _ in here})
    if workload is not None and workload not in names:
        raise InputError(f"the table has no workload {workload!r}", nearest(workload, names))
    left = [(name, kind) for name, kind in here if workload in (None, name) and task in (None, kind)]
    listed = ", ".join(f"{name} {kind}" for name, kind in here)
    if len(left) == 1:
        return left[0]
    if not left:
        raise InputError(f"the table has no {task} rows of {workload or 'any network'}", f"it has: {listed}")
    raise InputError(
        f"the table has several networks or tasks: {listed}", "choose with --workload NAME and --kind TASK"
    )


@contextmanager
def _network(source: str, live: Live, seed: int) -> Iterator[Offer]:
    from edgetune.cli.request import profile_options
    from edgetune.cli.subject import Words, check, choose_subject
    from edgetune.devices.device import Absent, TableSource
    from edgetune.devices.discover import open_device
    from edgetune.profiling.estimate import estimate
    from edgetune.profiling.profiler import open_profiler

    if live.device is None:
        raise InputError(f"{source} is a network, not a table, and no device is named", "e.g. --device twin:orin-agx")
    words = Words(source, live.task, live.batch_sizes, live.modes, live.ops)
    check(words)
    options = profile_options(
        dimensions=live.dimensions,
        precision=live.precision,
        inputs=live.inputs,
        point_timeout=live.point_timeout,
        seed=seed,
    )
    device = open_device(live.device, seed=seed)
    subject = choose_subject(device, words, options, default_size=None)
    workload, task, points = subject.workload, subject.task, subject.points
    inputs: dict[str, Any] = {"workload": {"name": workload.name, "sha256": workload.sha256}}
    if workload.ops is not None:
        inputs["ops"] = {"name": workload.ops.name, "sha256": workload.ops.sha256}
    free = isinstance(device.source, TableSource)
    with open_profiler(device, workload, task, options) as profiler:
        yield Offer(
            points=points,
            measure=profiler.measure,
            task=task,
            described=f"{workload.name} {task} on {device.name}",
            simulated=device.simulated,
            free=free,
            inputs=inputs,
            conditions={"device": device.name, "simulated": device.simulated, **device.conditions},
            warnings=(*subject.notes, *profiler.cautions(points[0].batch_size)),
            expect=lambda: estimate(device, workload, points, options),
            defect=lambda: profiler.defect,
            no_power=device.power.reason if isinstance(device.power, Absent) and not free else None,
        )

"""Limits on input from outside, so that a small file cannot exhaust memory or processor time.

Every limit has a name, a unit and a default. A document, a table, a network or a scenario beyond one is refused in two
lines that name the limit; ``edgetune --raise-limit NAME=VALUE COMMAND ...`` raises (or lowers) it for one command. The
defaults hold a file of less than 1 MB under 10 s of processor time and 500 MB of memory, above what the libraries
take.
"""

import errno
import io
import math
import os
import signal
import stat
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

from edgetune.choices import nearest
from edgetune.errors import InputError
from edgetune.units import parse_bytes, parse_time_s


class Limit(NamedTuple):
    """One limit.

    Args:
        unit: The counted unit, in the plural.
        default: The default maximum.
        reason: The reason for this default.
    """

    unit: str
    default: int
    reason: str


LIMITS: Mapping[str, Limit] = {
    "file_bytes": Limit("bytes", 256 << 20, "a file or a pipe is read whole"),
    "table_cells": Limit("cells", 4_000_000, "or one for each byte of the file"),
    "table_columns": Limit("columns", 2_000, "names are compared with each other"),
    "table_bytes": Limit("bytes after expansion", 128 << 20, "or 64 for each byte of the file"),
    "document_nodes": Limit("keys and values", 100_000, "the YAML parser reads 40,000 a second"),
    "document_depth": Limit("levels", 50, "the YAML parser recurses"),
    "onnx_nodes": Limit("operators", 30_000, "5,000 a second are costed"),
    "onnx_nesting": Limit("operators in bodies, times their depth", 30_000, "bodies are read again"),
    "onnx_weights": Limit("initialisers", 20_000, "5,000 a second are read"),
    "onnx_inputs": Limit("inputs or outputs", 1_000, "each may carry the batch"),
    "weight_bytes": Limit("bytes of weights", 128 << 20, "tensors may share a file; or eight times its size"),
    "input_bytes": Limit("bytes of inputs for a sample", 128 << 20, "a 4K image in floats has 100 MB"),
    "constant_bytes": Limit("bytes of constants made by operators", 128 << 20, "held in memory three times"),
    "shape_bytes": Limit("bytes of memory", 256 << 20, "for the shapes of a network"),
    "observe_bytes": Limit("bytes of memory", 380 << 20, "beside the weights, where a network runs for its shapes"),
    "observe_seconds": Limit("seconds", 10, "for a sample, where a network runs for its shapes"),
    "array_bytes": Limit("bytes after expansion", 32 << 20, "of a .npz file, or eight times its size"),
    "layers": Limit("layers", 1_000, "each is costed by itself"),
    "requests": Limit("requests", 50_000, "each takes some 500 bytes"),
    "schedule_tasks": Limit("layers to run, those of all requests together", 80_000, "10,000 a second are simulated"),
    "waits": Limit("pairs of a request and one that it waits for", 1_000_000, "looked at when a request ends"),
    "modes": Limit("power modes", 100_000, "each is planned alone"),
    "windows": Limit("windows for a request", 1_000, "of a trace with rates"),
    "clients": Limit("clients", 100_000, "each has a request under way"),
    "launches": Limit("launches", 300_000, "in all runs on a GPU; each takes 1.4 kB"),
    "simulated_launches": Limit("launches", 60_000, "in all runs; each takes 0.15 ms"),
    "kernel_calls": Limit("calls of kernels", 2_000, "each is planned by itself"),
    "kernel_size": Limit("pixels, units or steps", 10_000, "steps of a recurrent network are launches"),
    "figure_lanes": Limit("lanes", 1_000, "multiprocessors, workers or tasks"),
    "figure_items": Limit("marks and points", 300_000, "each takes 2 kB while it is drawn"),
    "figure_panels": Limit("panels", 50, "each takes 30 to 100 ms"),
    "figure_seconds": Limit("seconds", 8, "of processor time for a drawing"),
    "figure_bytes": Limit("bytes of memory", 400 << 20, "for the drawing of a figure"),
    "networks": Limit("networks", 1_000, "each is opened and costed"),
    "jobs": Limit("jobs or tasks", 1_000, "each has its own queue"),
}  # fmt: skip
"""Every limit by its name."""

_set: dict[str, int] = {}
_BLOCK_BYTES = 1 << 20


def limit(name: str) -> int:
    """Return the current value of the limit ``name``."""
    return _set.get(name, LIMITS[name].default)


def check(name: str, found: float, what: str, *, at_least: float = 0) -> None:
    """Refuse ``what`` if it has more than its limit allows.

    Args:
        name: The limit.
        found: The amount, in its unit.
        what: The owner of the amount, for the message: a file, a task, an option.
        at_least: An amount that is allowed even if the limit is lower, e.g. in proportion to a file's size.

    Raises:
        InputError: ``found`` is above both.
    """
    if not found <= max(limit(name), at_least):
        raise beyond(name, what, found)


_LARGEST = 1e30
"""A larger figure is not written out; a product of sizes may have hundreds of digits."""


def beyond(name: str, what: str, found: float | None = None) -> InputError:
    """Return the error of ``what``, which is beyond the limit called ``name``; ``found`` is how much, where known."""
    unit, most = LIMITS[name].unit, limit(name)
    known = found is not None and found < _LARGEST
    wanted = math.ceil(found) if found is not None and known else 10 * most
    much = f"{_figure(wanted)} {unit}, more than" if known else f"more {unit} than"
    verb = "takes" if "memory" in unit or unit == "seconds" else "has"
    return InputError(
        f"{what} {verb} {much} the limit {name} allows ({_figure(most)})",
        f"is the input right? If so, raise the limit: edgetune --raise-limit {name}={wanted} COMMAND ...",
    )


def read_file(path: Path, *, name: str | None = None) -> bytes:
    """Return the bytes of a file; of a pipe only if a program writes to it, since the wait for one may never end.

    Args:
        path: The file.
        name: Its name for messages; by default its path.

    Raises:
        InputError: it has more bytes than the limit ``file_bytes`` allows; a device has no end.
        OSError: it cannot be read, or is a pipe to which no program writes.
    """
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        os.set_blocking(file.fileno(), True)
        data = read_whole(file, name=name or str(path))
        if not data and stat.S_ISFIFO(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENODATA, "no program writes to this pipe", str(path))
    return data


def read_whole(file: BinaryIO, *, name: str) -> bytes:
    """Return the remaining bytes of a file, a pipe or a device.

    Raises:
        InputError: there are more bytes than the limit ``file_bytes`` allows.
    """
    most = limit("file_bytes")
    whole = io.BytesIO()
    while block := file.read(_BLOCK_BYTES):
        if whole.tell() + len(block) > most:
            raise beyond("file_bytes", name)
        whole.write(block)
    return whole.getvalue()


def set_limits(words: Iterable[str]) -> None:
    """Set the limits of ``--raise-limit``, and all others to their defaults.

    Args:
        words: Each ``NAME=VALUE``; a number of bytes may have a unit (``512MiB``), as may seconds.

    Raises:
        InputError: a limit is unknown, or a value is not a whole number above zero.
    """
    found = dict(_parsed(word) for word in words)
    _set.clear()
    _set.update(found)


def raised() -> list[str]:
    """Return the limits that are not at their defaults, as ``set_limits`` takes them: for a child process."""
    return [f"{name}={value}" for name, value in _set.items()]


@contextmanager
def limited(**values: int) -> Iterator[None]:
    """Set limits within the context."""
    before = dict(_set)
    _set.update(values)
    try:
        yield
    finally:
        _set.clear()
        _set.update(before)


@contextmanager
def bounded_memory(more_bytes: int) -> Iterator[bool]:
    """Make allocations of this process fail above its current memory plus ``more_bytes``.

    This is the last resort for files that lie about their size. Yields whether the system can do so: Linux counts
    private memory, whether touched or not. A limit that is already lower stays.
    """
    import resource

    allocated = _allocated_bytes()
    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = allocated + more_bytes
    if not allocated or 0 <= before[0] <= most:
        yield False
        return
    resource.setrlimit(resource.RLIMIT_DATA, (most, before[1]))
    try:
        yield True
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


@contextmanager
def bounded_cpu_time(name: str, what: str) -> Iterator[None]:
    """Interrupt a computation that takes more processor time than the limit called ``name`` allows.

    This is the last resort for inputs whose cost is not known beforehand. Only the main thread is interrupted, and only
    between two steps of Python: a long call of a library ends first. Elsewhere nothing is bounded.

    Args:
        name: A limit in seconds.
        what: The computation, for the message.

    Raises:
        InputError: the computation takes more.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_PROF)[0]:
        yield
        return

    def stop(*_: object) -> NoReturn:
        raise beyond(name, what)

    before = signal.signal(signal.SIGPROF, stop)
    try:
        signal.setitimer(signal.ITIMER_PROF, limit(name), 1.0)  # again where a library swallows the first
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _allocated_bytes() -> int:
    """Return the private memory of this process as the kernel counts it for its limit, bytes; 0 if unknown."""
    try:
        with open("/proc/self/status") as status:
            return next((1024 * int(line.split()[1]) for line in status if line.startswith("VmData:")), 0)
    except OSError:
        return 0


def _parsed(word: str) -> tuple[str, int]:
    name, sign, value = word.partition("=")
    if name not in LIMITS:
        raise InputError(f"--raise-limit: there is no limit {name!r}", nearest(name, LIMITS))
    example = f"e.g. --raise-limit {name}={10 * LIMITS[name].default}"
    if not sign or not value.strip():
        raise InputError(f"--raise-limit: {name} has no value", example)
    number = _number(value, LIMITS[name].unit)
    if number is None or not 1 <= number < math.inf:
        raise InputError(f"--raise-limit: {name} is {value!r}, not a number of {LIMITS[name].unit} above zero", example)
    return name, int(number)


def _number(value: str, unit: str) -> float | None:
    try:
        return float(value)
    except ValueError:
        if unit.startswith("bytes"):
            return parse_bytes(value, what="--raise-limit: the size")
        return parse_time_s(value, what="--raise-limit: the time") if unit == "seconds" else None


def _figure(number: int) -> str:
    return f"{number:,}" if number < 10**15 else f"{number:.3g}"

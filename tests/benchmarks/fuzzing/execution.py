"""One input, run by edgetune in a process of its own: how it ended, what it said, what it cost, what it left.

The process is forked from one that has loaded what edgetune loads, so that an input costs milliseconds. The kernel
ends it when its time is up. What is judged: exit code, both lines of the error, control letters, files that were read,
files that were written elsewhere, and, of an artifact that was shown, whether its copies read back as it does.
"""

from __future__ import annotations

import os
import pickle
import re
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuzzing.inputs import Input
from fuzzing.judging import changed, escapes, frames_of, judged, shown_again
from fuzzing.seeds import put

CPU_S, RSS_BYTES, WALL_S = 10.0, 500_000_000, 120.0
"""What an input may cost; the wall clock ends only what waits for ever, for others may use the machine."""
_ADDRESSES_BYTES = 4 << 30
"""What a process may reserve beyond what it begins with: less than would hurt the machine."""
_KERNEL = ("/dev/", "/proc/", "/sys/fs/cgroup/")
"""Where the kernel answers: a memory limit is a folder there."""


_FOLDERS = {"HOME": "home", "XDG_CACHE_HOME": "cache", "XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "runtime",
            "TMPDIR": "tmp"}  # fmt: skip
"""Where else edgetune writes: folders of the input's own."""
_LOADED_LATER = (
    "onnx", "onnxruntime", "pyarrow.parquet", "pyarrow.csv", "yaml", "pydantic", "scipy.optimize", "optuna",
    "matplotlib.backends.backend_svg",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ended:
    """How an input ended.

    Args:
        code: Exit code; negative for a signal.
        out, err: What it said.
        cpu_s: Processor time of it and its children.
        rss_bytes: How far its memory grew.
        faults: What is wrong with that, a line each, the kind first: ``exit 1: ...``; empty where all is well.
        escapes: Whether control letters came out.
    """

    code: int
    out: bytes = b""
    err: bytes = b""
    cpu_s: float = 0.0
    rss_bytes: int = 0
    faults: tuple[str, ...] = ()
    escapes: bool = False


def execute(given: Input, folder: Path) -> Ended:
    """Run an input in a new process, in ``folder``, which is made and removed, and return how it ended."""
    return _execute([given], folder)[0]


def execute_all(inputs: Sequence[Input], folder: Path) -> list[Ended]:
    """Run inputs one after another in as few processes as may be, and return how each ended.

    A process takes all that are left until one ends it. What failed as another than the first of its process is run
    again alone: then nothing but the input can be the cause.
    """
    found: list[Ended] = []
    while len(found) < len(inputs):
        first = len(found)
        batch = _execute(inputs[first:], folder / str(first))
        for place, ended in enumerate(batch):
            alone = place > 0 and bool(ended.faults)
            found.append(execute(inputs[first + place], folder / f"{first}-{place}") if alone else ended)
    return found


def _execute(inputs: Sequence[Input], folder: Path) -> list[Ended]:
    """Run inputs in one new process until the last or until one ends the process; return how those ended that ran."""
    folder.mkdir(parents=True)
    pid = os.fork()
    if pid == 0:
        _child(inputs, folder)
    late = _waited(pid, folder)
    status, usage = late[1], late[2]
    found = []
    for place in range(len(inputs)):
        report = folder / f"{place}.report"
        if not report.exists():
            break
        found.append(_with_costs(pickle.loads(report.read_bytes())))
    if len(found) < len(inputs):
        found.append(_with_costs(_lost(folder / str(len(found)), status, usage, late=late[0])))
    shutil.rmtree(folder, ignore_errors=True)
    return found


def _waited(pid: int, folder: Path) -> tuple[bool, int, resource.struct_rusage]:
    """Wait for a process, and end it when it has not finished an input for long; return whether that was so."""
    late, finished, since_s = False, -1, time.monotonic()
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            break
        now = sum(1 for _ in folder.glob("*.report"))
        if now != finished:
            finished, since_s = now, time.monotonic()
        if time.monotonic() - since_s > WALL_S:
            late = True
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.01)
    with suppress(OSError):
        os.killpg(pid, signal.SIGKILL)  # what it has started and not waited for
    return late, status, usage


def _lost(folder: Path, status: int, usage: resource.struct_rusage, *, late: bool) -> Ended:
    """Return how an input ended that took its process with it."""
    said = {name: (folder / name).read_bytes() if (folder / name).exists() else b"" for name in ("out", "err")}
    code = os.waitstatus_to_exitcode(status)
    place = _last_frames(said["err"].decode(errors="replace"))
    how = f"killed by signal {-code}" if code < 0 else f"vanished with {code}"
    fault = f"waited {WALL_S:.0f} s" if late else f"{how} {place}"
    return Ended(code, said["out"], said["err"], usage.ru_utime + usage.ru_stime, 0, (fault,))


def _with_costs(ended: Ended) -> Ended:
    faults = list(ended.faults)
    if ended.cpu_s > CPU_S:
        faults.append(f"CPU: over {CPU_S:.0f} s")
    if ended.rss_bytes > RSS_BYTES:
        faults.append(f"memory: over {RSS_BYTES // 1_000_000} MB")
    return replace(ended, faults=tuple(faults))


def _rss_bytes(field: str = "VmRSS:") -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


def _child(inputs: Sequence[Input], folder: Path) -> None:
    """Run inputs and write a report of each; never returns."""
    code = 70
    try:
        os.setsid()
        _limited()
        watch = _Watch()
        trouble: list[str] = []
        _record_unexpected(trouble)
        for place, given in enumerate(inputs):
            ended = _measured(given, folder / str(place), watch, trouble)
            report = folder / f"{place}.report"
            report.with_suffix(".new").write_bytes(pickle.dumps(ended))
            report.with_suffix(".new").rename(report)
            os.chdir("/")
            shutil.rmtree(folder / str(place), ignore_errors=True)
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _measured(given: Input, folder: Path, watch: _Watch, trouble: list[str]) -> Ended:
    """Run one input in this process."""
    folder.mkdir(parents=True)
    work = _prepared(given, folder)
    trouble.clear()
    begun_s = sum(os.times()[:4])
    resource.setrlimit(resource.RLIMIT_CPU, (int(sum(os.times()[:2]) + CPU_S) + 1, resource.RLIM_INFINITY))
    Path("/proc/self/clear_refs").write_text("5")  # the peak of memory begins anew
    before = _rss_bytes()
    watch.begin(folder)
    ended = _run(given, folder, trouble)
    watch.end()
    grown, took_s = _rss_bytes("VmHWM:") - before, sum(os.times()[:4]) - begun_s
    faults = (*ended.faults, *changed(given, work), *watch.outside)
    return replace(ended, cpu_s=took_s, rss_bytes=max(0, grown), faults=faults)


def _prepared(given: Input, folder: Path) -> Path:
    """Put the files of an input in place, go there, and send both streams to files."""
    work = folder / "work"
    (work / "out").mkdir(parents=True)
    put(work, given.files)
    os.chdir(work)
    for word, name in _FOLDERS.items():
        (folder / name).mkdir(exist_ok=True)
        os.environ[word] = str(folder / name)
    import tempfile

    tempfile.tempdir = None
    (folder / "in").write_bytes(given.stdin)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    for number, name, how in ((0, "in", os.O_RDONLY), (1, "out", flags), (2, "err", flags)):
        opened = os.open(folder / name, how, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    return work


def _limited() -> None:
    import faulthandler

    faulthandler.register(signal.SIGXCPU, file=2, chain=True)
    faulthandler.enable(2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + _ADDRESSES_BYTES,) * 2)


class _Watch:
    """Notes what is opened for writing, made, moved or removed outside a folder."""

    def __init__(self) -> None:
        self.folder = ""
        self.outside: list[str] = []
        sys.addaudithook(self._note)

    def begin(self, folder: Path) -> None:
        """Watch from here on, for another folder."""
        self.folder = str(folder.resolve())
        self.outside = []

    def end(self) -> None:
        """Watch no longer."""
        self.folder = ""
        self.outside = [re.sub(r"\d+", "N", each) for each in dict.fromkeys(self.outside)]

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.folder:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, int) or not (flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)):
                return
            self._check(event, path)
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.rename", "os.link", "os.symlink", "os.truncate"):
            relative = [each for each in arguments if isinstance(each, int) and each not in (-1, 0o777)]
            if not relative or event == "os.mkdir":
                self._check(event, arguments[1] if event in ("os.rename", "os.link", "os.symlink") else arguments[0])

    def _check(self, event: str, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return
        name = os.fsdecode(path)
        place = os.path.realpath(name)
        compiled = "/__pycache__/" in place  # by Python, of a module that is imported for the first time
        if not compiled and not place.startswith((self.folder, *_KERNEL)):
            self.outside.append(f"writes outside: {event} {place}")


def _run(given: Input, folder: Path, trouble: list[str]) -> Ended:
    from edgetune.cli.main import run

    code = run(list(given.argv))
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    out, err = ((folder / name).read_bytes() for name in ("out", "err"))
    faults = judged(code, err, trouble)
    if given.command == "show" and code == 0 and not faults:
        faults += shown_again(given)
    return Ended(code, out, err, faults=tuple(faults), escapes=escapes(given, out, err))


def _record_unexpected(trouble: list[str]) -> None:
    """Have the command line note the last frames of what it calls unexpected."""
    from edgetune.cli import main

    describe = main.describe

    def noting(error: BaseException) -> tuple[str, str, int]:
        told = describe(error)
        if told[2] == 1:
            trouble.append(frames_of(error))
        return told

    main.describe = noting


def _last_frames(err: str) -> str:
    """Return the innermost frames of edgetune in what the fault handler wrote."""
    found = re.findall(r'File "[^"]*/edgetune/([^"]*)", line \d+ in (\S+)', err)
    return "in " + " < ".join(f"{Path(name).name}:{function}" for name, function in found[:2])


def preload() -> None:
    """Load every module of edgetune and what it loads later, in the process that others are forked from."""
    import contextlib
    import gc
    import importlib
    import pkgutil

    import edgetune

    for module in pkgutil.walk_packages(edgetune.__path__, "edgetune."):
        if "__main__" not in module.name and not module.name.endswith(("_contract", ".guardian.program")):
            with contextlib.suppress(Exception):
                importlib.import_module(module.name)
    for name in _LOADED_LATER:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()

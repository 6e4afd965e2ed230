"""A fleet of real processes on this machine: a scheduler and boards, to kill and to freeze."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from edgetune.processes.families import descendants

_PATIENCE_S = 120.0
_SCRIPT = "import sys; del sys.path[0]; from edgetune.cli.main import main; main(sys.argv[1:])"
"""What the installed script does: it is not in the working folder, whose modules it does not find."""


def until(done: Callable[[], object], what: str, patience_s: float = _PATIENCE_S) -> None:
    give_up_s = time.monotonic() + patience_s
    while not done():
        if time.monotonic() > give_up_s:
            raise TimeoutError(what)
        time.sleep(0.1)


class LocalFleet:
    """A scheduler and boards on this machine; a context manager that ends all of them."""

    def __init__(self, folder: Path, *, tls: bool = False, environment: dict[str, str] | None = None) -> None:
        self.folder, self.tls, self.port = folder, tls, 0
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), **(environment or {})}
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.boards: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> LocalFleet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.boards.values(), self.scheduler):
            if process is not None:
                self.end(process)

    @property
    def url(self) -> str:
        return f"{'tls' if self.tls else 'tcp'}://127.0.0.1:{self.port}"

    @property
    def device(self) -> str:
        return f"fleet:{self.url}" + (f"?tls={self.folder / 'certs'}" if self.tls else "")

    def run(self, *words: str, name: str, before: Sequence[str] = (), **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [*before, sys.executable, "-c", _SCRIPT, *words], stdout=log, stderr=log, cwd=self.folder,
                env={**self.environment, **environment},
            )  # fmt: skip

    def log(self, name: str) -> str:
        path = self.folder / f"{name}.log"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def start(self) -> None:
        before = self.log("scheduler").count("the fleet is at")
        safe = ("--tls", "certs") if self.tls else ("--no-tls",)
        self.scheduler = self.run(
            "fleet", "start", *safe, "--host", "127.0.0.1", "--port", str(self.port), name="scheduler"
        )
        until(lambda: self.log("scheduler").count("the fleet is at") > before, self.log("scheduler"))
        self.port = int(re.findall(r"the fleet is at \S+:([0-9]+)", self.log("scheduler"))[-1])

    def join(
        self, name: str, *words: str, wait: bool = True, limit_kib: int | None = None, before: Sequence[str] = (),
        **environment: str,
    ) -> None:  # fmt: skip
        safe = ("--tls", "certs") if self.tls else ()
        state = {"XDG_STATE_HOME": str(self.folder / f"state-{name}"), **environment}
        command = ("fleet", "join", self.url, *safe, "--board", name, *words)
        self.boards[name] = self.run(*command, name=name, before=before, **state)
        if limit_kib is not None:
            import resource

            limit = (limit_kib * 1024, limit_kib * 1024)
            resource.prlimit(self.boards[name].pid, resource.RLIMIT_FSIZE, limit)
        if wait:
            until(lambda: "has joined" in self.log(name), f"{name} has not joined: {self.log(name)}")

    def worker(self, name: str) -> int | None:
        for pid in descendants(self.boards[name].pid):
            with suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return None

    def signal_worker(self, name: str, number: int) -> bool:
        pid = self.worker(name)
        with suppress(ProcessLookupError):
            if pid is not None:
                os.kill(pid, number)
                return True
        return False

    def edgetune(self, *words: str, timeout_s: float = 300.0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", _SCRIPT, *words], capture_output=True, text=True, cwd=self.folder,
            env=self.environment, timeout=timeout_s, check=False,
        )  # fmt: skip

    @staticmethod
    def end(process: subprocess.Popen[bytes], *, patience_s: float = 30.0) -> None:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(patience_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def words_of(device: str, modes: str, sizes: Sequence[int] = (1,)) -> list[str]:
    return ["--device", device, "--modes", modes, "--batch-sizes", ",".join(map(str, sizes))]

"""A fake of the kernel's accounts of CPU time, ``proc/stat`` and ``proc/PID/stat``, in the layout of proc(5)."""

from pathlib import Path

TICKS_PER_S = 100
_OTHERS = 4242


class FakeProc:
    """CPUs whose time a test divides among processes; the files below ``root`` follow."""

    def __init__(self, root: Path, cpus: int = 2, own: int = 100) -> None:
        self._root = root
        self.own = own
        self.runnable = 1
        self._cpus = {cpu: {"own": 0.0, "others": 0.0, "steal": 0.0, "idle": 0.0} for cpu in range(cpus)}
        self._processes: dict[int, tuple[int, str, float, float]] = {}
        self.start(1, 0, "init")
        self.start(own, 1, "edgetune")
        self.start(_OTHERS, 1, "tmux: server (1)")

    def start(self, process: int, parent: int, name: str = "worker") -> None:
        self._processes[process] = (parent, name, 0.0, 0.0)
        self._write()

    def end(self, process: int) -> None:
        parent, _, used_s, waited_s = self._processes.pop(process)
        above, name, own_s, before_s = self._processes[parent]
        self._processes[parent] = (above, name, own_s, before_s + used_s + waited_s)
        (self._root / f"proc/{process}/stat").unlink()
        (self._root / f"proc/{process}").rmdir()
        self._write()

    def off(self, cpu: int) -> None:
        del self._cpus[cpu]
        self._write()

    def pass_s(
        self, seconds: float, *, own: float = 0.0, others: float = 0.0, steal: float = 0.0, by: int | None = None
    ) -> None:
        for spent in self._cpus.values():
            spent["own"] += own * seconds
            spent["others"] += others * seconds
            spent["steal"] += steal * seconds
            spent["idle"] += (1 - own - others - steal) * seconds
        for process, share in ((by or self.own, own), (_OTHERS, others)):
            parent, name, used_s, waited_s = self._processes[process]
            self._processes[process] = (parent, name, used_s + share * seconds * len(self._cpus), waited_s)
        self._write()

    def _write(self) -> None:
        lines = [_cpu_line(f"cpu{cpu}", [spent]) for cpu, spent in self._cpus.items()]
        total = _cpu_line("cpu ", list(self._cpus.values()))
        rest = ["intr 0", "ctxt 0", "btime 0", "processes 9", f"procs_running {self.runnable}", "procs_blocked 0"]
        self._put("stat", "\n".join([total, *lines, *rest]) + "\n")
        for process, (parent, name, used_s, waited_s) in self._processes.items():
            user, waited = _ticks(used_s), _ticks(waited_s)
            head = f"{process} ({name}) S {parent} {process} {process} 0 -1 4194304 9 9 0 0"
            self._put(f"{process}/stat", f"{head} {user} 0 {waited} 0 20 0 1 0 100 9 9 18446744073709551615\n")

    def _put(self, path: str, text: str) -> None:
        target = self._root / "proc" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def _cpu_line(name: str, spent: list[dict[str, float]]) -> str:
    user, idle, steal = (
        _ticks(sum(sum(each[kind] for kind in kinds) for each in spent))
        for kinds in (("own", "others"), ("idle",), ("steal",))
    )
    return f"{name} {user} 0 0 {idle} 0 0 0 {steal} 0 0"


def _ticks(seconds: float) -> int:
    return round(seconds * TICKS_PER_S)

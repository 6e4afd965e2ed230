"""A fake of a Jetson's kernel: plain files in a folder that behave as with the kernel of each release.

Results are marked as simulated. Errors, clamping and silent no-ops follow kernel sources and field reports; power and
temperature follow simple formulas. All state is in files, so several processes may open one folder, and a test may kill
one and inspect the state.
"""

import shutil
from pathlib import Path

from edgetune.devices.capabilities import Clock, MonotonicClock
from edgetune.testing import fake_cpu, fake_description, fake_emc, fake_gpu, fake_nvpmodel, fake_power, fake_thermal
from edgetune.testing.fake_description import FakeBoard, from_yaml
from edgetune.testing.fake_files import HIDDEN, Answer, Fault, KernelFiles, Killed

__all__ = ["Answer", "FakeKernel", "Fault", "Killed"]

DESCRIPTION = f"{HIDDEN}/board.yaml"


class FakeKernel(KernelFiles):
    """The kernel of the board that ``make_board`` built in a folder.

    Args:
        root: The folder.
        user: Rights of the program, ``root`` or ``user``; by default those of the description.
        clock: Clock of the refresh of readings; a virtual clock makes a test fast.
    """

    def __init__(self, root: Path, *, user: str | None = None, clock: Clock | None = None) -> None:
        self.board: FakeBoard = from_yaml((root / DESCRIPTION).read_text(encoding="utf-8"))
        super().__init__(root, user=user or self.board.user)
        self._clock = clock or MonotonicClock()
        self._answer_all()

    def _answer_all(self) -> None:
        self.answers = (
            fake_cpu.answers(self, self.board)
            | fake_gpu.answers(self, self.board)
            | fake_emc.answers(self, self.board, self._clock)
            | fake_power.answers(self, self.board, self._clock)
            | fake_thermal.answers(self, self.board, self._clock)
        )

    def power_on(self) -> None:
        """Boot: recreate every volatile file, then set the nvpmodel mode saved on the disk."""
        boots = int(self.hidden("boots", "-1")) + 1
        for folder in ("proc", "sys", "run", f"{HIDDEN}/state", f"{HIDDEN}/parked"):
            shutil.rmtree(self.root / folder, ignore_errors=True)
        self.hide("boots", boots)
        for part in (fake_description, fake_cpu, fake_gpu, fake_emc, fake_power, fake_thermal):
            part.boot(self, self.board)
        (self.root / "run").mkdir(parents=True, exist_ok=True)
        self._reals.clear()
        self._answer_all()
        fake_nvpmodel.set_mode(self, self.board, fake_nvpmodel.active(self, self.board))
        self.hide("booted", 1)

    def power_cut(self) -> None:
        """Discard all volatile state and boot again; the disk (``etc``, ``var``) stays."""
        self.power_on()

    def settings(self) -> dict[str, str]:
        """Return every volatile setting by path, for comparisons; the error of an unreadable one."""
        found: dict[str, str] = {}
        for path in self.files_below("sys"):
            if self.mode_of(path) & 0o222:
                answer = self.answers.get(path)
                try:
                    found[path] = (answer.read() if answer and answer.read else self.raw(path)).strip()
                except OSError as error:
                    found[path] = error.strerror or str(error)
        return found

    def neighbour(self, value: str) -> str | None:
        """Return the clock below ``value`` in its table (above, for the lowest), in the unit of ``value``."""
        for table, scale in ((self.board.cpu_khz, 1), (self.board.gpu_khz, 1000), (self.board.emc_khz, 1000)):
            values = [khz * scale for khz in table]
            if value.strip().isdecimal() and int(value) in values and len(values) > 1:
                return str(values[abs(values.index(int(value)) - 1)])
        return None

    def work(self, *, gpu: float = 0.0, cpu: float = 0.0) -> None:
        """Set the load as shares of the GPU's and the CPU's time; clocks and power follow."""
        self.hide("busy.gpu", gpu)
        self.hide("busy.cpu", cpu)

    def warm(self, celsius: float) -> None:
        """Set the temperature of every zone approximately."""
        self.hide("warmth_mc", celsius * 1000)

    def over_current(self, channel: int, events: int = 1) -> None:
        """Count over-current events, as the throttling hardware does without telling cpufreq or devfreq."""
        path = fake_thermal.oc_path(self, self.board, channel)
        self.put(path, int(self.raw(path)) + events)

    def throttle(self, on: bool) -> None:
        """Halve the CPU's real clock, which only ``cpuinfo_cur_freq`` shows."""
        self.hide("throttled", int(on))

    def nvpmodel(self, number: str) -> int:
        """Run ``nvpmodel -m NUMBER`` independently of the program, and return its exit code."""
        return fake_nvpmodel.command(self, self.board, number)

"""Hold what ``edgetune roofline`` says of the next clocks against what ``edgetune profile`` measures on the twin.

    python tests/benchmarks/clock_advice.py [NETWORK ...]

Three tables: of the twin, of the twin with the noise of a board, and of the twin without measuring the network there.
A line for every sentence, then the median and the greatest error in percentage points, and how many changes lie in the
interval or the range that was stated. A range has no error where the change lies within it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import median

from edgetune.artifacts.io import read_profile
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.profile import ProfileRow
from edgetune.cli.main import run

TWIN, NOISY = "twin:orin-agx", "twin:orin-agx?noise=on&seed=7"
MODES = "cpu_cores=8|12,cpu_mhz=1036.8|1651.2|2201.6,gpu_mhz=318.75|726.75|1300.5,mem_mhz=665.6|2133|3199"
STARTS = (Mode(12, 2201.6, 1300.5, 3199.0), Mode(12, 1651.2, 726.75, 2133.0))
NETWORKS = ("resnet50", "mobilenet_v2", "yolov8n", "bert_base", "lstm", "googlenet")
BATCHES = (1, 16)
_SENTENCE = re.compile(r"with (\w+) ([\d.]+): time (.*?)(?:, energy (.*?))? \((measured|possible, not measured)\)")
_PERCENT = re.compile(r"[+-][\d.]+(?=%)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, and what the twin measures.

    Args:
        network, batch_size, start: Of the mode that the change starts from.
        knob, value: The change.
        told: Percentages of time and of energy: a figure, a figure and the ends of its interval, or those of a range.
        twin: The changes of time and of energy by the twin, %.
    """

    network: str
    batch_size: int
    start: Mode
    knob: str
    value: float
    told: tuple[tuple[float, ...], tuple[float, ...]]
    twin: tuple[float, float]

    @property
    def errors(self) -> tuple[float, float]:
        """Return the errors of time and of energy, percentage points."""
        time, energy = (part if len(part) == 2 else part[:1] for part in self.told)
        return _outside(time, self.twin[0]), _outside(energy, self.twin[1])

    @property
    def covered(self) -> tuple[bool, bool]:
        """Return whether the changes of time and of energy lie in what was stated, to the digit printed."""
        time, energy = (_outside(part, twin) < 0.06 for part, twin in zip(self.told, self.twin, strict=True))
        return time, energy


def _outside(told: tuple[float, ...], twin: float) -> float:
    return max(min(told) - twin, twin - max(told), 0.0)


def sentences(networks: tuple[str, ...], batches: tuple[int, ...], *options: str, device: str = TWIN) -> list[Sentence]:
    """Return every sentence of ``edgetune roofline`` about the next clocks; ``options`` are more for it."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        peaks = str(Path(folder) / "peaks.yaml")
        _edgetune("roofline", "--device", TWIN, "--modes", MODES, "--quick", "-o", peaks)
        for network in networks:
            sizes = ("--batch-sizes", ",".join(map(str, batches)))
            asked = ("profile", f"zoo:{network}", "--task", "infer", "--device", TWIN, "--modes", MODES)
            profile = str(Path(folder) / f"{network}.parquet")
            _edgetune(*asked, *sizes, "-o", profile)
            rows = {(row.batch_size, row.mode): row for row in read_profile(profile).rows}
            for batch_size in batches:
                for start in STARTS:
                    modes = ",".join(f"{knob}={value:g}" for knob, value in start.knobs().items())
                    beneath = ("--peaks", peaks, "--force", "--modes", modes, "--batch-sizes", str(batch_size))
                    said = _edgetune("roofline", f"zoo:{network}", "--device", device, *beneath, *options)
                    here = {mode: row for (size, mode), row in rows.items() if size == batch_size}
                    found += [_sentence(words, network, batch_size, start, here) for words in _SENTENCE.findall(said)]
    return found


def _sentence(
    words: tuple[str, ...], network: str, batch_size: int, start: Mode, rows: dict[Mode, ProfileRow]
) -> Sentence:
    knob, value, time, energy, how = words
    there = Mode.of({**start.knobs(), knob: float(value)})
    now, then = rows[start], rows[there]
    twin = tuple(100 * (getattr(then, name) / getattr(now, name) - 1) for name in ("minibatch_s", "energy_j"))
    told = [tuple(map(float, _PERCENT.findall(part))) for part in (time, energy)]
    assert (how == "measured") == (len(told[0]) != 2)
    return Sentence(network, batch_size, start, knob, float(value), (told[0], told[1]), (twin[0], twin[1]))


def _edgetune(*words: str) -> str:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    assert code == 0, err.getvalue()
    return out.getvalue()


def table(found: list[Sentence]) -> str:
    """Return a line per sentence."""
    lines = [
        f"{'network':14s}{'batch':>5s}  {'change':16s}{'time told':>18s}{'twin':>8s}{'energy told':>18s}{'twin':>8s}"
    ]
    for each in found:
        start = "" if each.start == STARTS[0] else " (middle)"
        time, energy = (" ".join(f"{end:+.1f}" for end in part) for part in each.told)
        change = f"{each.knob} {each.value:g}"
        figures = f"{time:>21s}{each.twin[0]:+8.1f}{energy:>21s}{each.twin[1]:+8.1f}"
        lines.append(f"{each.network:14s}{each.batch_size:5d}  {change:17s}{figures}{start}")
    return "\n".join([*lines, summary(found)])


def summary(found: list[Sentence]) -> str:
    """Return the median and the greatest error of time and of energy."""
    words = []
    for index, what in enumerate(("time", "energy")):
        errors = [each.errors[index] for each in found]
        within = sum(each.covered[index] for each in found)
        words.append(
            f"{what}: median error {median(errors):.2f} points, greatest {max(errors):.2f}, {within} as stated"
        )
    return f"{len(found)} sentences; {'; '.join(words)}"


if __name__ == "__main__":
    networks = tuple(sys.argv[1:]) or NETWORKS
    print(table(sentences(networks, BATCHES)))
    print("\nwith noise:", table(sentences(networks, BATCHES, device=NOISY)), sep="\n")
    print("\nwithout measuring the network:", table(sentences(networks, BATCHES, "--no-measure")), sep="\n")

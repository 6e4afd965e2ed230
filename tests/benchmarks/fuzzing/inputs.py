"""Input N of a seed: a command line and the files that it names, a function of the two numbers alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from fuzzing.commands import PREFIXED, Command, Parameter, commands
from fuzzing.damage import damaged
from fuzzing.seeds import Seed, companions, seeds
from fuzzing.values import HOSTILE, NUMBER_TEXTS

_WORD = re.compile(r"[^\s<]*<[^>]*>|\S+")
_SLOT = re.compile(r"([^<]*)<([^>]*)>")
_GROUPS = ("onnx", "artifact")
_SMALL = {
    "--duration": "5ms", "--turns": "1", "--count": "2", "--interval": "1ms", "--runs": "2", "--max-epochs": "1",
    "--seeds": "1", "--jobs": "1", "--time-limit": "1s", "--point-timeout": "5s", "--layer-timeout": "5s",
    "--cool-timeout": "1ms", "--minibatches": "3", "--repeats": "2", "--sample": "20", "--max-points": "3",
    "--retries": "0", "--networks": "2", "--layers": "2:3", "--interleave-repeats": "2", "--cool-to": "500C",
}  # fmt: skip
"""What makes a command work for long has this value, or one that is none: the fuzzer asks for no long work."""
_NEVER = ("--check", "--calibrate", "--leave-one-out", "--all", "--cold", "--convergence", "--layers", "--eager")
"""Flags that ask for long work, for a compiler, or to train."""
_VALUES: Mapping[str, tuple[str, ...]] = {
    "TIME": ("1ms", "80ms", "2s", "0.5us", "1h"), "POWER": ("30W", "4500mW", "0.001W", "20W@10ms"),
    "SHARE": ("5%", "0%", "100%", "0.05", "20%"), "RATE": ("60/s", "1/min", "0.001/s"), "SIZE": ("64MiB", "1B",
    "8GiB", "0"),
    "TEMP": ("50C", "500C"), "N": ("1", "2", "3", "16"), "LIST": ("1,4", "1", "fp16", "512", "all", "linear,masa",
    "10%"),
    "infer|train": ("infer", "train"), "SIZES": ("8MiB", "uniform:1MiB:2MiB", "log:1MiB:2MiB"),
    "TIMES": ("1ms", "log:1ms:2ms"), "NAME=SIZE": ("batch=2", "N=1", "sequence=8", "batch=0"),
    "INPUT=AXIS": ("x=0", "x=none", "x=1", "x=-1"), "THEIRS=OURS": ("power_w=power_mw", "note=-", "task=infer", "a=b"),
    "VIEW": ("steps", "front", "latency", "timeline", "gantt", "gantt:masa@1s-2s", "roofs"),
    "X,Y,Z": ("14,14", "196", "1,1,1", "2147483647"), "KIND": ("train", "infer", "train+infer", "accuracy",
    "infer+infer"),
    "NAME=VALUE": ("launch=1us", "gap=0", "host=5us", "turn=1"), "FACTOR": ("1.1", "2", "1e6"), "MACRO": ("TILE=16",
    "A", "N=3"),
    "op|class|node": ("op", "class", "node"), "strategy|workload": ("strategy", "workload"),
    "fulcrum|auto": ("fulcrum", "auto"),
    "prefill|decode": ("prefill", "decode"), "SM": ("sm_87",), "FORM": ("literal",), "LEVEL": ("all", "extended",
    "basic"),
    "NAME": ("lstm", "resnet18", "net", "faces", "train", "time", "energy", "fp16", "int8", "gmd", "exhaustive",
    "throughput",
             "orin-agx", "orin-nano", "accuracy", "tiled", "code"),
}  # fmt: skip
_ENDINGS = ("parquet", "csv", "json", "yaml", "svg", "png", "pdf", "html", "onnx", "cu", "xyz")
_IMAGES = 0.03
"""How often a random option draws a figure, which takes long."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input of the fuzzer.

    Args:
        command: The words of the command, e.g. ``schedule run``.
        kinds: Of the files that it is given.
        argv: The command line.
        files: What lies in the folder where it runs, by relative path.
        stdin: What it reads from standard input.
    """

    command: str
    kinds: tuple[str, ...]
    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class Pair:
    """A command, what of it names a file, and a kind of file to give it."""

    command: Command
    slot: Parameter | None
    kind: str


@cache
def pairs() -> tuple[Pair, ...]:
    """Return every command with every kind of file in each place that may name one: how a seed's inputs begin."""
    found = [Pair(command, slot, kind) for command in commands() for slot in command.slots for kind in seeds()]
    bare = [Pair(command, None, "") for command in commands() if not command.slots]
    Random(0).shuffle(found)
    return (*bare, *found)


@cache
def templates() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Return the words of the known command lines, by command."""
    names = {command.name for command in commands()}
    found: dict[str, list[tuple[str, ...]]] = {}
    for line in (Path(__file__).parent / "templates.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            words = tuple(_WORD.findall(line))
            name = max((" ".join(words[:n]) for n in range(4) if " ".join(words[:n]) in names), key=len)
            found.setdefault(name, []).append(words[len(name.split()) :])
    return {name: tuple(lines) for name, lines in found.items()}


def make_input(seed: int, number: int) -> Input:
    """Return an input; the first of every seed pair each command with each kind of file, the others are drawn."""
    rng = Random(f"{seed}:{number}")
    maker = _Maker(rng)
    if number < len(pairs()):
        return maker.paired(pairs()[number])
    return maker.drawn()


class _Maker:
    """Puts one input together."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.kinds: list[str] = []
        self.files: dict[str, bytes] = dict(companions())
        self.stdin = b""

    def paired(self, pair: Pair) -> Input:
        """Return a command with a file of a kind in one place, as it is or damaged, and whatever else it needs."""
        words = self._words(pair.command, pair.slot)
        given = (
            None if pair.slot is None else self._given(pair.slot, self._file(pair.kind, broken=self.rng.random() < 0.6))
        )
        argv: list[str] = []
        for word in words:
            slot = _SLOT.fullmatch(word)
            if slot is None:
                argv.append(word)
            elif given is not None and pair.slot is not None and not pair.slot.option and given not in argv:
                argv.append(given)
            else:
                argv.append(slot[1] + self._file(self._kind(slot[2]), broken=False))
        if given is not None and pair.slot is not None and given not in argv:
            if pair.slot.option:
                argv = _without(argv, pair.slot.name)
                argv += [pair.slot.name, given]
            else:
                argv.insert(0, given)
        return self._finished(pair.command, argv)

    def drawn(self) -> Input:
        """Return a command line that is known, with damaged files, other options, or both."""
        rng = self.rng
        command = rng.choice(_weighted())
        words = self._words(command, None)
        argv: list[str] = []
        for word in words:
            slot = _SLOT.fullmatch(word)
            if slot is None:
                argv.append(word)
                continue
            kind = self._kind(slot[2]) if rng.random() < 0.85 else rng.choice(list(seeds()))
            name = self._file(kind, broken=rng.random() < 0.85)
            argv.append("-" if not slot[1] and rng.random() < 0.06 and self._to_stdin(name) else slot[1] + name)
        if rng.random() < 0.4:
            for _ in range(rng.choice((1, 1, 2, 3))):
                argv += self._option(command)
        if rng.random() < 0.04 and argv:
            argv[rng.randrange(len(argv))] = rng.choice([word for word in HOSTILE if "\x00" not in word])
        return self._finished(command, argv)

    def _words(self, command: Command, slot: Parameter | None) -> tuple[str, ...]:
        """Return the words of a known line, of those that have this option if there are any; or what is required."""
        known = templates().get(command.name, ())
        fitting = [words for words in known if slot is not None and slot.name in words] or list(known)
        if fitting:
            return self.rng.choice(fitting)
        words = []
        for parameter in command.parameters:
            if parameter.required:
                word = "<artifact>" if parameter.reads else self._value(parameter)
                words += [parameter.name, word] if parameter.option else [word]
            elif parameter.name in _SMALL:
                words += [parameter.name, _SMALL[parameter.name]]
        return tuple(words)

    def _kind(self, wanted: str) -> str:
        kinds = [kind for name in wanted.split() for kind in _of(name)]
        return self.rng.choice(kinds)

    def _file(self, kind: str, *, broken: bool) -> str:
        """Put a file of that kind in place and return its name."""
        seed: Seed = seeds()[kind]
        self.kinds.append(kind)
        files = damaged(self.rng, seed) if broken else seed.files
        name = seed.name
        if name in self.files and name not in companions():  # the same kind a second time
            name = f"other-{name}"
            files = {f"other-{path}": data for path, data in files.items()}
        self.files |= files
        return name

    def _given(self, slot: Parameter, name: str) -> str:
        prefix = PREFIXED.get(slot.name, "")
        if slot.metavar.startswith("MODEL") and name.startswith("llm."):
            prefix = "llm:"
        return prefix + name

    def _to_stdin(self, name: str) -> bool:
        if name not in self.files:
            return False
        self.stdin = self.files[name]
        return True

    def _option(self, command: Command) -> list[str]:
        """Return a random option of the command with a value that may do, or one that does not."""
        usable = [each for each in command.parameters if each.option and each.name not in _NEVER]
        if not usable:
            return ["--json"]
        parameter = self.rng.choice(usable)
        return [parameter.name, self._value(parameter)] if parameter.metavar else [parameter.name]

    def _value(self, parameter: Parameter) -> str:
        rng = self.rng
        if parameter.writes:
            figures = parameter.name in ("--plot", "--figure")
            ending = rng.choice(_ENDINGS) if not figures or rng.random() < _IMAGES * 10 else "xyz"
            return rng.choice((f"out/other.{ending}",) * 8 + ("out", "out/none/x.parquet", "", "-", "/dev/null"))
        if parameter.reads and rng.random() < 0.7:
            return self._given(parameter, self._file(rng.choice(list(seeds())), broken=rng.random() < 0.5))
        if rng.random() < 0.6 or parameter.name in _SMALL:
            known = _VALUES.get(parameter.metavar, _VALUES["NAME"])
            small = _SMALL.get(parameter.name)
            return (
                small
                if small is not None and rng.random() < 0.7
                else rng.choice(known if small is None else _NO_NUMBERS)
            )
        return rng.choice([word for word in (*NUMBER_TEXTS, *HOSTILE) if "\x00" not in word])

    def _finished(self, command: Command, argv: list[str]) -> Input:
        kinds = tuple(dict.fromkeys(self.kinds))
        return Input(command.name, kinds, (*command.words, *argv), self.files, self.stdin)


_NO_NUMBERS = ("", "-1", "nan", "x", "-", "1e400s", "0", "\x1b[31m", "٣", "--", "1 2", "0x1")


def _without(argv: list[str], option: str) -> list[str]:
    """Return a command line without an option and its value; a template may write the option in its short form."""
    if option == "--device" and "-d" in argv:
        option = "-d"
    if option == "--modes" and "-m" in argv:
        option = "-m"
    if option not in argv:
        return argv
    at = argv.index(option)
    return argv[:at] + argv[at + 2 :]


@cache
def _of(name: str) -> tuple[str, ...]:
    """Return the kinds that a word of a template means: one, or a whole group."""
    if name not in _GROUPS:
        return (name,)
    return tuple(_grouped(name))


def _grouped(name: str) -> Iterator[str]:
    from edgetune.artifacts.kinds import KINDS

    for kind, seed in seeds().items():
        stem = kind.partition(".")[0].partition("-v")[0]
        if (name == "onnx" and seed.shape == "onnx") or (name == "artifact" and stem in KINDS):
            yield kind


@cache
def _weighted() -> tuple[Command, ...]:
    """Return every command as often as it has known command lines, up to six times: those that read much come often."""
    return tuple(
        command for command in commands() for _ in range(min(6, max(1, len(templates().get(command.name, ())))))
    )

"""Parser of NVIDIA's power-mode configurations, ``/etc/nvpmodel/nvpmodel_*.conf``.

    < PARAM TYPE=CLOCK NAME=GPU >                         declares a setting: its name and its files
    FREQ_TABLE /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/available_frequencies
    MAX_FREQ /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq
    MAX_FREQ_KNEXT /sys/devices/platform/17000000.gpu/devfreq_dev/max_freq      the same on a newer kernel

    < POWER_MODEL ID=2 NAME=MODE_30W >                    a mode: its settings, in the order in which they are written
    CPU_ONLINE CORE_8 0
    GPU MAX_FREQ 612000000                                Hz; kHz for the CPU; -1 is no limit

    < PM_CONFIG DEFAULT=2 >                               the mode of the first boot
    < FAN_CONFIG DEFAULT=quiet >

``#`` starts a comment anywhere in a line. NVIDIA's own files have ``<PARAM`` without a blank, tabs and double blanks;
the parser accepts all of them. Source: the heads of those files and NVIDIA's guide to
editing them (NVIDIA/skills, skills/jetson-customize-nvpmodel/SKILL.md).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from edgetune.errors import InputError

UNCAPPED = 2_147_483_647
"""The value of -1 in a clock: INT_MAX. Source: ``nvpmodel -q --verbose`` shows it as ``CONF_VAL: 2147483647``."""

KINDS = ("FILE", "CLOCK", "HWMON")
_NEXT = "_KNEXT"
_HEADER = re.compile(r"<\s*(\w+)\s*(.*?)\s*>\Z")
_ATTRIBUTE = re.compile(r"(\w+)=([^=<>]+)\Z")
_INTEGER = re.compile(r"-?[0-9]{1,18}\Z")  # more digits than any clock in Hz


@dataclass(frozen=True, slots=True)
class Param:
    """A setting that modes refer to.

    Args:
        name: Its name in modes, e.g. ``GPU``.
        kind: ``FILE`` (any text), ``CLOCK`` (a rate) or ``HWMON`` (a sensor's limit).
        paths: The file of each argument, e.g. ``MAX_FREQ``, and ``MAX_FREQ_KNEXT`` for newer kernels. A sensor's folder
            is numbered at boot, so its path contains a ``*``.
    """

    name: str
    kind: str
    paths: Mapping[str, str]

    @property
    def arguments(self) -> tuple[str, ...]:
        """Argument names that modes may use; an argument and its ``_KNEXT`` form count as one."""
        return tuple(dict.fromkeys(argument.removesuffix(_NEXT) for argument in self.paths))

    def declared(self, argument: str) -> tuple[str, ...]:
        """Return the paths of an argument, that of newer kernels last; empty when the argument is not declared."""
        return tuple(self.paths[name] for name in (argument, argument + _NEXT) if name in self.paths)

    def path_of(self, argument: str, exists: Callable[[str], bool]) -> str | None:
        """Return the path of an argument that exists on this kernel; ``None`` when no path exists."""
        return next(filter(exists, self.declared(argument)), None)


@dataclass(frozen=True, slots=True)
class NvpmodelSetting:
    """One line of a mode.

    Args:
        param: The declared name.
        argument: The argument of that setting.
        value: An integer for clocks (``UNCAPPED`` for -1) and sensor limits, else text.
    """

    param: str
    argument: str
    value: int | str


@dataclass(frozen=True, slots=True)
class PowerModel:
    """A power mode of the configuration; its number does not rank its speed."""

    id: int
    name: str
    settings: tuple[NvpmodelSetting, ...]

    def get(self, param: str, argument: str) -> int | str | None:
        """Return the last value that the mode gives an argument; ``None`` when the mode does not set it."""
        values = (s.value for s in reversed(self.settings) if (s.param, s.argument) == (param, argument))
        return next(values, None)


@dataclass(frozen=True, slots=True)
class NvpmodelConfiguration:
    """A parsed configuration.

    Args:
        params: Declared settings, by name.
        models: Modes, in the order of the file.
        default: Number of the mode of the first boot.
        notes: Lines that nvpmodel ignores, one sentence each.
    """

    params: Mapping[str, Param]
    models: tuple[PowerModel, ...]
    default: int | None = None
    notes: tuple[str, ...] = ()

    def model(self, identity: int | None) -> PowerModel | None:
        """Return the mode with this number, or ``None``."""
        return next((model for model in self.models if model.id == identity), None)


@dataclass(frozen=True, slots=True)
class _Line:
    source: str
    number: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.source}, line {self.number}"

    def refuse(self, what: str) -> NoReturn:
        hint = "compare it with NVIDIA's files in /etc/nvpmodel; the line is wrong or of an unknown release"
        raise InputError(f"{self}: {what}", hint)


@dataclass(slots=True)
class _Draft:
    """The parts read so far."""

    params: dict[str, Param] = field(default_factory=dict)
    models: list[PowerModel] = field(default_factory=list)
    defaults: dict[str, tuple[_Line, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left_out: list[InputError] = field(default_factory=list)


def parse_configuration(text: str, source: str = "nvpmodel.conf") -> NvpmodelConfiguration:
    """Parse a configuration.

    Args:
        text: The file's text.
        source: Its name, for messages.

    Raises:
        InputError: a line is not of this grammar; the message names the file and the line.
    """
    draft = _Draft()
    last = _Line(source, 1, ())
    for header, body in _sections(text, source):
        kind, attributes = _header(header)
        last = body[-1] if body else header
        if kind == "PARAM":
            _add_param(draft, header, attributes, body)
        elif kind == "POWER_MODEL":
            _add_model(draft, header, attributes, body)
        elif kind in ("PM_CONFIG", "FAN_CONFIG"):
            if body:
                body[0].refuse("this line belongs to no section")
            draft.defaults[kind] = header, _attribute(header, attributes, "DEFAULT")
        else:
            header.refuse(f"there is no section {kind}")
    if not draft.models:
        if draft.left_out:
            raise draft.left_out[0]
        last.refuse("the file ends without any POWER_MODEL")
    return NvpmodelConfiguration(
        params=draft.params, models=tuple(draft.models), default=_default(draft), notes=tuple(draft.notes)
    )


def _sections(text: str, source: str) -> Iterator[tuple[_Line, list[_Line]]]:
    """Yield each section's first line and the lines below it, without comments and empty lines."""
    header: _Line | None = None
    body: list[_Line] = []
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = _Line(source, number, tuple(raw.partition("#")[0].split()))
        if not line.words:
            continue
        if line.words[0].startswith("/"):
            line.refuse("a path where a name belongs: this is the older format of L4T R28 (2017), which is not read")
        if line.words[0].startswith("<"):
            if header is not None:
                yield header, body
            header, body = line, []
        elif header is None:
            line.refuse("this line stands before the first section")
        else:
            body.append(line)
    if header is not None:
        yield header, body


def _header(line: _Line) -> tuple[str, dict[str, str]]:
    match = _HEADER.match(" ".join(line.words))
    if match is None:
        line.refuse("a section begins < KIND NAME=VALUE >")
    attributes = {}
    for word in re.sub(r"\s*=\s*", "=", match[2]).split():
        attribute = _ATTRIBUTE.match(word)
        if attribute is None:
            line.refuse(f"{word!r} is not NAME=VALUE")
        attributes[attribute[1]] = attribute[2]
    return match[1], attributes


def _attribute(line: _Line, attributes: Mapping[str, str], name: str) -> str:
    if name not in attributes:
        line.refuse(f"the section lacks {name}=")
    return attributes[name]


def _integer(line: _Line, word: str) -> int:
    if not _INTEGER.match(word):
        line.refuse(f"{word!r} is not a whole number")
    return int(word)


def _add_param(draft: _Draft, header: _Line, attributes: Mapping[str, str], body: list[_Line]) -> None:
    kind, name = _attribute(header, attributes, "TYPE"), _attribute(header, attributes, "NAME")
    if kind not in KINDS:
        header.refuse(f"TYPE={kind} is none of {', '.join(KINDS)}")
    paths: dict[str, str] = {}
    for line in body:
        words = line.words
        if len(words) != (3 if kind == "HWMON" else 2) or not words[1].startswith("/"):
            what = "a folder and a file" if kind == "HWMON" else "a path"
            draft.notes.append(f"{line}: a {kind} is declared by a name and {what}: ignored")
            continue
        paths[words[0]] = f"{words[1]}/hwmon*/{words[2]}" if kind == "HWMON" else words[1]
    draft.params[name] = Param(name, kind, paths)


def _add_model(draft: _Draft, header: _Line, attributes: Mapping[str, str], body: list[_Line]) -> None:
    identity = _integer(header, _attribute(header, attributes, "ID"))
    if any(model.id == identity for model in draft.models):
        header.refuse(f"a second mode has ID={identity}")
    name = _attribute(header, attributes, "NAME")
    try:
        settings = tuple(_setting(draft, line) for line in body)
    except InputError as error:
        draft.left_out.append(error)
        draft.notes.append(f"{error.message}: the mode {name} is left out")
        return
    draft.models.append(PowerModel(identity, name, settings))


def _setting(draft: _Draft, line: _Line) -> NvpmodelSetting:
    if len(line.words) < 3:
        line.refuse("a setting is a name, an argument and a value")
    name, argument, *rest = line.words
    param = draft.params.get(name)
    if param is None or not param.declared(argument):
        draft.notes.append(f"{line}: {name} {argument} is declared nowhere above: ignored")
    if param is None or param.kind == "FILE":
        return NvpmodelSetting(name, argument, " ".join(rest))
    if len(rest) > 1:
        line.refuse(f"{name} {argument} takes one number")
    value = _integer(line, rest[0])
    if value < -1:
        line.refuse(f"{name} {argument} cannot be {value}")
    return NvpmodelSetting(name, argument, UNCAPPED if value == -1 else value)


def _default(draft: _Draft) -> int | None:
    """Return the number of the default mode, which may be given by name."""
    if "PM_CONFIG" not in draft.defaults:
        return None
    line, word = draft.defaults["PM_CONFIG"]
    found = next((model.id for model in draft.models if word in (model.name, str(model.id))), None)
    if found is None:
        draft.notes.append(f"{line}: the default {word} is no mode that can be read")
    return found

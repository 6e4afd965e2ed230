"""Parse power modes from the text that users write.

    MAXN, 30w, MODE_30W                   a preset, with or without MODE_, in any case; MAXN,30w is both
    grid:441                              a study's grid of that size, else evenly spaced levels of every knob
    all                                   every combination, or everything a table lists
    gpu_mhz=318:1300:3,mem_mhz=2133       a pattern: knobs by name; unnamed knobs stay at their highest value
    modes.csv, profile.parquet, plan.yaml a file with knob columns, a list of mappings, or a plan
    as-found                              no knob is touched

In a pattern a value is a number, ``a|b|c``, ``a:b`` (every value of the table from a to b) or ``a:b:n`` (n of those,
evenly spread, both ends included). A clock may be approximate: 318 means 318.75 MHz if the table has that value. On
a device with listed modes only, a pattern selects among them and unnamed knobs may have any value.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune import limits
from edgetune.artifacts.files import STDIN
from edgetune.artifacts.header import DataWarning
from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.choices import nearest
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.mode_grids import evenly_spaced, levels_of, modes_of
from edgetune.errors import DeviceError, InputError

AS_FOUND = "as-found"
_ROUGH = 0.03
"""Largest relative difference between a given clock and its table value: users write 318 for 318.75."""
_PATTERN = re.compile(r"\s*\w+\s*=")
_MOST_DIGITS = 30
_FILE_SUFFIXES = (".csv", ".tsv", ".txt", ".yaml", ".yml", ".json", ".parquet")


@dataclass(frozen=True, slots=True)
class Selection:
    """Modes, and notes about their selection (e.g. fewer than requested)."""

    modes: tuple[Mode, ...]
    notes: tuple[DataWarning, ...] = ()


def parse_modes(text: str, space: ModeSpace) -> list[Mode]:
    """Return the modes that ``text`` names, by the module's grammar, without duplicates, in a stable order.

    Raises:
        InputError: ``text`` is not a preset, pattern or file, or the device lacks a value.
        DeviceError: a knob exists but cannot be set here.
    """
    return list(select_modes(text, space).modes)


def select_modes(text: str, space: ModeSpace) -> Selection:
    """Return the modes that ``text`` names, and notes for the user; errors as ``parse_modes``."""
    word = text.strip()
    if word.lower() == AS_FOUND:
        if space.listed is not None and Mode() not in space.listed:
            message = "this device offers listed modes only, and as-found is none of them"
            raise InputError(message, "choose among its listed modes")
        return Selection((Mode(),))
    if word.lower() == "all":
        return Selection(_unique(_all(space)))
    if word.lower().startswith("grid:"):
        return _grid(word[5:], space)
    if _PATTERN.match(word):
        return Selection(_unique(_matching(_wanted(word, space), space, text=text)))
    presets = {name: _preset(name, space) for name in word.split(",")}
    if set(presets.values()) != {None}:
        for name in (name for name, mode in presets.items() if mode is None):
            raise _unknown(name.strip(), space)
        return Selection(_unique(mode for mode in presets.values() if mode is not None))
    if word == STDIN or Path(word).is_file() or "/" in word or word.lower().endswith(_FILE_SUFFIXES):
        return Selection(_unique(_from_file(word, space)))
    raise _unknown(word, space)


def default_modes(space: ModeSpace) -> list[Mode]:
    """Return the default modes.

    These are all listed modes of a table; else the preset ``default`` (a host leaves its clock unchanged); else the
    highest mode.
    """
    if space.listed is not None:
        return list(_unique(space.listed))
    return [space.presets.get("default") or highest_mode(space)]


def highest_mode(space: ModeSpace) -> Mode:
    """Return the preset ``MAXN`` (or ``MAXN_SUPER``), else every knob at its highest value; no knobs: as found."""
    highest = {knob: values[-1] for knob, values in space.knobs.items()}
    for name in ("MAXN_SUPER", "MAXN"):
        if name in space.presets:
            highest |= space.presets[name].knobs()
            break
    return Mode.of({knob: highest[knob] for knob in KNOBS if knob in highest})


def snap(knob: str, value: float, allowed: Sequence[float]) -> float:
    """Return the table value that ``value`` means: within 3 % for a clock, else exactly.

    Raises:
        InputError: the table has no such value; the message names the nearest.
    """
    nearby = _nearby(knob, value, allowed)
    if nearby in allowed:
        return nearby
    near = sorted(sorted(allowed, key=lambda other: abs(other - value))[:3])
    hint = f"the nearest values are {', '.join(f'{v:g}' for v in near)}"
    raise InputError(f"{knob} cannot be {value:g} on this device", hint)


def _nearby(knob: str, value: float, allowed: Sequence[float]) -> float:
    """Return the table value that ``value`` means, or ``value`` itself when there is none."""
    nearest = min(allowed, key=lambda other: abs(other - value))
    rough = _ROUGH * nearest if knob.endswith("_mhz") else 1e-6
    return nearest if abs(nearest - value) <= rough else value


def _unique(modes: Iterable[Mode]) -> tuple[Mode, ...]:
    return tuple(dict.fromkeys(modes))


def _all(space: ModeSpace) -> Sequence[Mode]:
    if space.listed is not None:
        return space.listed
    limits.check("modes", _available(space), "this device")
    return modes_of(space.knobs)


def _grid(text: str, space: ModeSpace) -> Selection:
    if not text.strip().isdecimal() or len(text) > _MOST_DIGITS or int(text) < 1:
        raise InputError(f"a grid needs a number of modes, not {text[:40]!r}", "e.g. grid:441")
    count = int(text)
    limits.check("modes", min(count, _available(space)), f"grid:{count}")
    if space.listed is not None:
        modes = _listed_grid(space, space.listed, count)
    else:
        modes = _unique(modes_of(levels_of(space, count)))
    if len(modes) == count:
        return Selection(modes)
    advice = f"grid:{count} is {len(modes)} modes: the most that evenly spaced levels allow without going above"
    if len(modes) == _available(space):
        advice = f"grid:{count} is {len(modes)} modes: this device has no more"
    return Selection(modes, (DataWarning("grid-smaller", advice, {"asked": count, "modes": len(modes)}),))


def _available(space: ModeSpace) -> int:
    return math.prod(map(len, space.knobs.values())) if space.listed is None else len(_unique(space.listed))


def _listed_grid(space: ModeSpace, listed: Sequence[Mode], count: int) -> tuple[Mode, ...]:
    """Return the even grid if the table lists all of it, else evenly spaced listed modes."""
    distinct = _unique(listed)
    if len(distinct) <= count:
        return distinct
    grid = modes_of(levels_of(space, count))
    if set(grid) <= set(distinct):
        return tuple(grid)
    ordered = sorted(distinct, key=lambda mode: tuple(mode.knobs().get(knob, -1.0) for knob in KNOBS))
    step = (len(ordered) - 1) / max(count - 1, 1)
    return tuple(ordered[round(i * step) if count > 1 else -1] for i in range(count))


def _preset(word: str, space: ModeSpace) -> Mode | None:
    presets = {_preset_key(name): mode for name, mode in space.presets.items()}
    withheld = {_preset_key(name): reason for name, reason in space.withheld.items()}
    if (key := _preset_key(word)) in withheld:
        clocks = [f"{knob}={values[-1]:g}" for knob, values in space.knobs.items() if knob.endswith("_mhz")]
        either = f"; or name clocks, e.g. {clocks[0]}" if clocks else "; or use as-found"
        hint = f"edgetune device show lists those that can{either}"
        raise DeviceError(f"{word} cannot be set here: {withheld[key]}", hint)
    return presets.get(key)


def _preset_key(name: str) -> str:
    return name.strip().upper().removeprefix("MODE_")


def _unknown(word: str, space: ModeSpace) -> InputError:
    words = [*space.presets, "grid:N", "all", "as-found", "KNOB=VALUES", "a file"]
    hint = nearest(_preset_key(word), map(_preset_key, space.presets), listed=f"known: {', '.join(words)}")
    return InputError(f"unknown power mode {word!r}", hint)


def _wanted(text: str, space: ModeSpace) -> dict[str, tuple[float, ...]]:
    """Return the values of each knob that a pattern names."""
    wanted: dict[str, tuple[float, ...]] = {}
    for part in text.split(","):
        knob, equals, values = (piece.strip() for piece in part.partition("="))
        if not equals or not values:
            raise InputError(f"{part.strip()!r} is not KNOB=VALUES", "e.g. gpu_mhz=318:1300:3,mem_mhz=2133")
        _require_knob(knob, space)
        if knob in wanted:
            raise InputError(f"{knob} is given twice in {text!r}", f"join its values with |, e.g. {knob}=a|b")
        with _with_limits_hint(knob, space):
            wanted[knob] = _values(knob, values, space.knobs[knob])
    return wanted


def _require_knob(knob: str, space: ModeSpace) -> None:
    if knob in space.knobs:
        return
    if knob in space.fixed:
        raise DeviceError(f"{knob} cannot be set here: {space.fixed[knob]}", f"leave {knob} out")
    if knob in KNOBS:
        known = ", ".join(space.knobs) or "none; use --modes as-found"
        raise InputError(f"this device has no knob {knob}", f"its knobs: {known}")
    raise InputError(f"unknown knob {knob!r}", nearest(knob, KNOBS, listed=f"known: {', '.join(space.knobs or KNOBS)}"))


@contextmanager
def _with_limits_hint(knob: str, space: ModeSpace) -> Iterator[None]:
    """Extend an error about a knob's value by the reason why the highest values are not offered."""
    try:
        yield
    except InputError as error:
        if knob in space.limited:
            raise InputError(error.message, f"{space.limited[knob]}; {error.hint}") from None
        raise


def _values(knob: str, text: str, allowed: tuple[float, ...]) -> tuple[float, ...]:
    if ":" not in text:
        return tuple(dict.fromkeys(snap(knob, _number(knob, part), allowed) for part in text.split("|")))
    low_text, *rest = text.split(":")
    if len(rest) > 2:
        raise InputError(f"{knob}={text} has too many colons", f"write {knob}=low:high or {knob}=low:high:count")
    low, high = _number(knob, low_text), _number(knob, rest[0])
    if low > high:
        raise InputError(f"the range {knob}={text} is descending", f"write {knob}={rest[0]}:{low_text}")
    within = _within(knob, low, high, allowed)
    if len(rest) == 1:
        return within
    if not rest[1].strip().isdecimal() or int(rest[1]) < 1:
        raise InputError(f"{knob}={text}: {rest[1]!r} is not a count", f"e.g. {knob}={low:g}:{high:g}:3")
    return evenly_spaced(within, int(rest[1]))


def _number(knob: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        unit = {"mhz": " of MHz", "w": " of watts"}.get(knob.rsplit("_", 1)[-1], "")
        raise InputError(f"{knob}: {text!r} is not a number", f"write the number{unit} alone, e.g. {knob}=8")
    return value


def _within(knob: str, low: float, high: float, allowed: tuple[float, ...]) -> tuple[float, ...]:
    """Return the table's values from ``low`` to ``high``; an end given roughly stands for the value of the table."""
    low, high = min(low, _nearby(knob, low, allowed)), max(high, _nearby(knob, high, allowed))
    within = tuple(value for value in allowed if low - 1e-6 <= value <= high + 1e-6)
    if not within:
        some = ", ".join(f"{value:g}" for value in evenly_spaced(allowed, 8))
        raise InputError(f"this device has no {knob} between {low:g} and {high:g}", f"it has {some}")
    return within


def _matching(wanted: Mapping[str, tuple[float, ...]], space: ModeSpace, *, text: str) -> list[Mode]:
    if space.listed is None:
        levels = {knob: (value,) for knob, value in highest_mode(space).knobs().items()} | dict(wanted)
        return modes_of({knob: levels[knob] for knob in KNOBS if knob in levels})
    matching = [m for m in space.listed if all(m.knobs().get(knob) in values for knob, values in wanted.items())]
    if not matching:
        hint = "no mode combines these values; `edgetune device modes NAME all` lists its modes"
        raise InputError(f"no listed mode fits {text!r}", hint)
    return matching


def _from_file(source: str, space: ModeSpace) -> list[Mode]:
    from edgetune.devices.mode_grids import read_settings

    modes = []
    for stated in read_settings(source):
        mode = known_by_name(stated, space)
        if mode.power_mode is not None:
            modes.append(mode)
            continue
        settings = mode.knobs()
        for knob in settings:
            _require_knob(knob, space)
        wanted: dict[str, tuple[float, ...]] = {}
        for knob, value in settings.items():
            with _with_limits_hint(knob, space):
                wanted[knob] = (snap(knob, value, space.knobs[knob]),)
        modes += _matching(wanted, space, text=f"{source}: {settings}")
    return modes


def known_by_name(mode: Mode, space: ModeSpace) -> Mode:
    """Resolve a named mode on a device.

    A mode listed in a table is returned unchanged. Elsewhere the result has the mode's knobs if given, else the preset
    of that name.

    Raises:
        InputError: the mode has only a name, and the device has no mode of that name.
        DeviceError: the preset cannot be set here.
    """
    if mode.power_mode is None or (space.listed is not None and mode in space.listed):
        return mode
    if mode.knobs():
        return replace(mode, power_mode=None)
    preset = _preset(mode.power_mode, space)
    if preset is None:
        names = ", ".join(space.presets) or "none"
        message = (
            f"this device has no mode named {mode.power_mode!r}, and nothing says which clocks the name stands for"
        )
        raise InputError(message, f"its modes by name: {names}; or write clocks in its place, e.g. gpu_mhz=VALUE")
    return preset

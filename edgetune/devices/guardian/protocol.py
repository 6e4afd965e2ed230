"""What is said on the guardian's pipes: one request a line, one reply a line, both JSON, both small.

    {"id": 1, "request": "hello"}                            -> {"id": 1, "ok": true, "protocol": 1, "space": ..., ...}
    {"id": 2, "request": "apply", "mode": {"gpu_mhz": 306.0}} -> {"id": 2, "ok": true, "mode": {...}}: as read back
    {"id": 3, "request": "read"}                             -> {"id": 3, "ok": true, "mode": {...}}
    {"id": 4, "request": "restore"}                          -> {"id": 4, "ok": true}
    {"id": 5, "request": "keep"}                             -> {"id": 5, "ok": true}: the mode stays until `undo`
    {"id": 6, "request": "undo"}                             -> {"id": 6, "ok": true, "recovered": [...]}: sentences
    {"id": 7, "request": "left"}                             -> the same: what `hello` and `undo` would put back
    {"id": 8, "request": "forget"}                           -> the same: put back where possible, journals removed
    anything that fails            -> {"id": 2, "ok": false, "type": "DeviceError", "message": "...", "hint": "..."}

Over a socket the last line is {"ended": 0, "said": [...]}: the exit code, and the lines of standard error.

A request is data from a process without privilege. What is not exactly one of these is refused: there is no request
that names a file, and a mode holds nothing but values of the tables that the device itself advertises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plain import plain
from edgetune.devices.device import ModeSpace
from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.visible import one_line

PROTOCOL = 1
"""Version of the lines above; both ends are always of one installation, so an older one is not understood."""

LONGEST_LINE_BYTES = 64 * 1024
"""The longest request has five numbers, some 200 bytes; 64 KiB is what a Linux pipe holds."""

ENDED = "ended"
"""The key of the last line over a socket, where it holds the exit code."""

_DEFECT = "this is a defect of edgetune: please report it"


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)

    id: int = Field(ge=0, le=2**53)  # the largest range in which every JSON reader has integers


class Plain(_Strict):
    """A request without arguments."""

    request: Literal["hello", "read", "restore", "keep", "undo", "left", "forget"]


class Apply(_Strict):
    """Set a mode; knobs that it leaves out go back to what was found."""

    request: Literal["apply"]
    mode: dict[str, float]


Request: TypeAlias = Plain | Apply
_REQUESTS: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="request")])


def parse_request(line: bytes) -> Request:
    """Return the request in a line.

    Raises:
        InputError: it is none.
    """
    try:
        return _REQUESTS.validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise InputError(f"not a request: {shortened(what)}", _DEFECT) from None


def check_mode(knobs: Mapping[str, float], space: ModeSpace, device: str) -> Mode:
    """Return the mode of ``knobs``, every one of which is a value that the device offers.

    Raises:
        DeviceError: a knob that it does not have, a value not in its table, or a combination that it does not list.
    """
    hint = f"`edgetune device {device}` lists what it can set"
    for knob, value in knobs.items():
        if knob not in space.knobs:
            reason = space.fixed.get(knob, "there is no such knob")
            raise DeviceError(f"{device} cannot set {shortened(knob)}: {reason}", hint)
        if value not in space.knobs[knob]:
            raise DeviceError(f"{device} offers no {knob} of {value:g}", hint)
    mode = Mode.of(knobs)
    if space.listed is not None and knobs and mode not in space.listed:
        raise DeviceError(f"{device} does not offer {mode} together", hint)
    return mode


def success(number: int, **facts: Any) -> dict[str, Any]:
    """Return the reply to a request that was carried out."""
    return {"id": number, "ok": True, **facts}


def failure(number: int | None, error: EdgetuneError) -> dict[str, Any]:
    """Return the reply to a request that was not; ``number`` is ``None`` when it could not even be read."""
    kind, message, hint = type(error).__name__, error.message, error.hint
    return {"id": number, "ok": False, "type": kind, "message": message, "hint": hint}


def space_to_plain(space: ModeSpace) -> dict[str, Any]:
    """Return a space as JSON holds it."""
    return {
        "knobs": plain(space.knobs),
        "presets": {name: mode.knobs() for name, mode in space.presets.items()},
        "fixed": dict(space.fixed),
        "grids": plain(space.grids),
        "listed": None if space.listed is None else [mode.knobs() for mode in space.listed],
        "withheld": dict(space.withheld),
        "limited": dict(space.limited),
    }


def space_from_plain(data: Mapping[str, Any]) -> ModeSpace:
    """Return the space that ``space_to_plain`` was given."""

    def tables(knobs: Mapping[str, list[float]]) -> dict[str, tuple[float, ...]]:
        return {knob: tuple(values) for knob, values in knobs.items()}

    return ModeSpace(
        knobs=tables(data["knobs"]),
        presets={name: Mode.of(knobs) for name, knobs in data["presets"].items()},
        fixed=data["fixed"],
        grids={int(count): tables(knobs) for count, knobs in data["grids"].items()},
        listed=None if data["listed"] is None else tuple(Mode.of(knobs) for knobs in data["listed"]),
        withheld=data["withheld"],
        limited=data["limited"],
    )


def shortened(text: str) -> str:
    """Return text that came from outside as one short line that steers no terminal."""
    return one_line(text, 200)

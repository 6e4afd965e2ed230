"""``edgetune device set`` and ``restore``: one mode for a while, or for one command, and back again."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgetune.cli.options import Json, Quiet, Root
from edgetune.cli.screen import Screen, answer, print_folded, print_lines
from edgetune.workflows.reporting import SimulationLabel

if TYPE_CHECKING:
    from edgetune.artifacts.mode import Mode
    from edgetune.devices.device import Device
    from edgetune.devices.guardian.client import GuardianModes

_GRACE_S = 10.0
"""How long a command may take to end when it is asked to, e.g. to save its work: as `docker stop` gives it."""


def set_mode(
    name: Annotated[str, typer.Argument(metavar="DEVICE", help="Which one.")],
    mode: Annotated[str, typer.Argument(metavar="MODE", help="A preset, a pattern or a plan: exactly one mode.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="Run this in the mode, then put it back.")
    ] = None,
    *,
    root: Root = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be set.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Set one mode, verified by reading it back.

    It stays until edgetune device restore, which puts back what was found; with a COMMAND it lasts as long as that
    runs, whatever becomes of it, and its exit code is this one's.

    \b
      edgetune device set jetson MODE_30W
      edgetune device set jetson plan.yaml -- python train.py
    """
    from edgetune.workflows.device_option import open_named

    screen = Screen(quiet)
    device = open_named(name, root)
    chosen = one_mode(device, mode)
    label = SimulationLabel(device.simulated, screen)
    if dry_run:
        answer({"device": device.name, "would_set": chosen.knobs()}) if json else print_lines(f"would set {chosen}")
        return
    modes = guarded(device)
    with device.exclusive():
        try:
            found = modes.read()
            applied = modes.apply(chosen)
            label.announce()
            if command:
                screen.info(f"set {applied}; running {command[0]}")
                raise typer.Exit(_run(command))
            modes.keep()
        finally:
            try:
                modes.restore()
            finally:
                for sentence in modes.recovered:
                    screen.info(f"note: {sentence}")
    if json:
        answer({"device": device.name, "set": applied.knobs(), "found": found.knobs()})
    else:
        print_lines(f"set {applied}")
        screen.info(f"{restoring(name, root)} puts back what was found")


def one_mode(device: Device, text: str) -> Mode:
    """Return the one mode that ``text`` names.

    Raises:
        InputError: it names several, or none that the device has.
    """
    from edgetune.errors import InputError
    from edgetune.workflows.parse_options import choose_modes

    chosen = choose_modes(device, text).modes
    if len(chosen) != 1:
        raise InputError(
            f"{text!r} is {len(chosen)} modes, and one can be set", f"see edgetune device modes {device.name}"
        )
    return chosen[0]


def guarded(device: Device) -> GuardianModes:
    """Return the device's modes where a guardian sets them.

    Raises:
        DeviceError: the device cannot set modes, or none that would outlast this command.
    """
    from edgetune.devices.device import Absent
    from edgetune.devices.guardian.client import GuardianModes
    from edgetune.errors import DeviceError

    if isinstance(device.modes, GuardianModes):
        return device.modes
    if isinstance(device.modes, Absent):
        raise DeviceError(f"{device.name} cannot set modes: {device.modes.reason}", "see edgetune doctor")
    raise DeviceError(f"a mode of {device.name} lasts only while edgetune runs on it", "name a board, e.g. jetson")


def restoring(name: str, root: str | None) -> str:
    """Return the command that puts the device back."""
    return shlex.join(["edgetune", "device", "restore", name, *([] if root is None else ["--root", root])])


def _run(command: list[str]) -> int:
    """Run a command in the foreground until it ends, and return its exit code, as a shell would tell it.

    A Ctrl-C in the terminal reaches the command too, and what it means is for the command to say. Whatever else ends
    this process ends the command first, for the mode is to last as long as it runs.
    """
    from edgetune.errors import InputError

    sys.stdout.flush()
    with _deaf_to_ctrl_c():
        try:
            with _held_back() as held:
                process = subprocess.Popen(command)
        except OSError as error:
            raise InputError(f"cannot run {command[0]}: {error.strerror or error}", "check its name and PATH") from None
        with process:
            try:
                for number in held:
                    signal.raise_signal(number)
                code = process.wait()
            except BaseException:
                _end(process)
                raise
    return code if code >= 0 else 128 - code


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Let a Ctrl-C pass unheard; what is started meanwhile hears it, unless this process was told to ignore it too.

    Hearing it as an exception would not do: one that comes just as a process has ended would lose its exit code.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _held_back() -> Iterator[list[int]]:
    """Note signals that ask to end while a process is started: heard then, they would leave it running unknown."""
    noted: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heard = {number: handler for number, handler in before.items() if callable(handler)}
    for number in heard:
        signal.signal(number, lambda got, _: noted.append(got))
    try:
        yield noted
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to end, and kill it if it does not."""
    process.terminate()
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()


def restore(
    name: Annotated[str, typer.Argument(metavar="DEVICE", help="Which one.")] = "auto",
    *,
    root: Root = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be put back.")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Put back what can be, say what stays changed, and give that up.")
    ] = False,
    json: Json = False,
) -> None:
    """Put back what a killed run, a power cut or edgetune device set left behind.

    Where another nvpmodel mode was chosen since, its limits hold. Ends with 0 when the device is as it was found, also
    when there was nothing to do, and with 6 when it is not.
    """
    from edgetune.devices.guardian.client import left_behind, restore_through_guardian
    from edgetune.devices.guardian.lock import hold_to_restore
    from edgetune.errors import InputError
    from edgetune.workflows.device_option import guardian_of

    if dry_run and forget:
        raise InputError("--dry-run changes nothing and --forget does", "leave one of them out")
    kind, guardian = guardian_of(name, root)
    if dry_run:
        done = left_behind(guardian)
    else:
        with hold_to_restore(kind, Path(root or "/")) as in_use:
            if in_use:
                print_folded(f"note: {in_use}; {kind} is put back all the same", stream=sys.stderr)
            done = restore_through_guardian(guardian, forget=forget)
    if json:
        answer({"device": kind, "would_restore" if dry_run else "restored": list(done)})
    elif done:
        print_folded(*done)
    else:
        print_lines(f"{kind}: nothing to put back")

"""Read NVIDIA's power-mode configuration in force on the board, and its active mode.

Both are read from files rather than from ``nvpmodel``, which may wait on its standard input for permission to reboot.
"""

import hashlib
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgetune.devices.board_files import follow, read_bytes, read_text
from edgetune.devices.jetson.nvpmodel_grammar import NvpmodelConfiguration, PowerModel, parse_configuration
from edgetune.devices.sysfs import Sysfs, why
from edgetune.errors import InputError

CONFIGURATION = "etc/nvpmodel.conf"
CHOSEN = "var/lib/nvpmodel/conf_file_path"
STATUS = "var/lib/nvpmodel/status"
COMMAND = ("/usr/sbin/nvpmodel", "-q")

_PATIENCE_S = 10.0
"""Timeout of ``nvpmodel -q``, s: it answers at once on an idle board."""


@dataclass(frozen=True, slots=True)
class Nvpmodel:
    """The configuration in force.

    Args:
        config: The parsed configuration.
        active: Number of the active mode; ``None`` when unknown.
        path: The configuration file, its links followed, e.g. ``/etc/nvpmodel/nvpmodel_p3701_0000.conf``.
        sha256: SHA-256 of that file in hexadecimal.
        paths: The file behind each (setting, argument) that exists on this kernel, e.g. of ``("EMC", "MAX_FREQ")``.
        fan_profile: The fan profile chosen together with the mode (JetPack 4).
        notes: Unusual facts, one sentence each.
    """

    config: NvpmodelConfiguration
    active: int | None
    path: str
    sha256: str
    paths: Mapping[tuple[str, str], str]
    fan_profile: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def active_model(self) -> PowerModel | None:
        """The active mode; ``None`` when it is unknown or not in this configuration."""
        return self.config.model(self.active)


@dataclass(frozen=True, slots=True)
class NvpmodelStatus:
    """Output of ``nvpmodel -q``: the active mode's name and number, and whether a reboot is pending."""

    name: str | None
    id: int | None
    wants_reboot: bool


def read_nvpmodel(sysfs: Sysfs, ask: Callable[[], NvpmodelStatus | str] | None = None) -> Nvpmodel | str:
    """Return the configuration in force with its active mode, or the reason why there is none.

    Args:
        sysfs: The board's files.
        ask: Runs nvpmodel when its state file lacks the active mode; by default ``ask_nvpmodel`` on the machine's own
            file system, and nothing elsewhere.
    """
    try:
        path = configuration_path(sysfs)
        content = read_bytes(sysfs.root, path)
        config = parse_configuration(content.decode(errors="replace"), source=f"/{path}")
    except InputError as error:
        return error.message
    except FileNotFoundError:
        return f"there is no /{CONFIGURATION}, and /{CHOSEN} names no file"
    except OSError as error:
        return f"/{CONFIGURATION}: {why(error)}"
    if ask is None and sysfs.root == Path("/"):
        ask = ask_nvpmodel
    active, notes = _active(sysfs, config, ask)
    paths = {
        (name, argument): file
        for name, param in config.params.items()
        for argument in param.arguments
        if (file := param.path_of(argument, lambda file: os.path.exists(sysfs.root / file.lstrip("/")))) is not None
    }
    fan = re.search(r"fmode:(\w+)", read_text(sysfs.root, STATUS) or "")
    return Nvpmodel(
        config=config,
        active=active,
        path=f"/{path}",
        sha256=hashlib.sha256(content).hexdigest(),
        paths=paths,
        fan_profile=fan[1] if fan else None,
        notes=(*config.notes, *notes),
    )


def saved_mode(sysfs: Sysfs) -> int | None:
    """Return the number of the mode that nvpmodel saved for the next boot; ``None`` when it saved none."""
    noted = re.search(r"pmode:([0-9]{1,9})", read_text(sysfs.root, STATUS) or "")
    return int(noted[1]) if noted else None


def present_masks(sysfs: Sysfs, nvpmodel: Nvpmodel) -> dict[str, str]:
    """Return the power-gating masks of GPU parts in force, by argument, e.g. ``{"TPC_PG_MASK": "240"}``.

    An unreadable mask is taken from the active mode, which set it, or left out where that mode does not name it.
    Thor keeps its mask as ``gpu_pg_mask_param=512``. Source: anduril/jetpack-nixos modules/nvpmodel.nix.
    """
    masks = {}
    for name, param in nvpmodel.config.params.items():
        for argument in filter(is_mask, param.arguments):
            path = nvpmodel.paths.get((name, argument))
            number = re.search(r"(\w+)\s*\Z", sysfs.text(path.lstrip("/"))) if path else None
            from_mode = nvpmodel.active_model.get(name, argument) if nvpmodel.active_model else None
            if number is not None:
                masks[argument] = number[1]
            elif from_mode is not None:
                masks[argument] = str(from_mode)
    return masks


def is_mask(argument: str) -> bool:
    """Whether an argument is a power-gating mask of GPU parts, which changes only with a reboot."""
    return argument.endswith("_PG_MASK")


def configuration_path(sysfs: Sysfs) -> str:
    """Return the file that nvpmodel reads: ``/etc/nvpmodel.conf``, else the one it recorded.

    Raises:
        OSError: neither file exists.
    """
    try:
        return follow(sysfs.root, CONFIGURATION)
    except OSError:
        chosen = read_text(sysfs.root, CHOSEN)
        if not chosen:
            raise
        return follow(sysfs.root, chosen.lstrip("/"))


def _active(
    sysfs: Sysfs, config: NvpmodelConfiguration, ask: Callable[[], NvpmodelStatus | str] | None
) -> tuple[int | None, list[str]]:
    """Return the active mode's number, and notes about it."""
    noted = saved_mode(sysfs)
    if noted is not None:
        return _known(noted, config)
    if ask is None:
        return None, [f"the active power mode is not known: /{STATUS} does not tell it"]
    answer = ask()
    if isinstance(answer, str):
        return None, [f"the active power mode is not known: /{STATUS} does not tell it, and {answer}"]
    named = next((model.id for model in config.models if model.name == answer.name), None)
    active, notes = _known(answer.id if answer.id is not None else named, config)
    if answer.wants_reboot:
        notes.append("nvpmodel asks for a reboot before it changes the power mode")
    return active, notes


def _known(active: int | None, config: NvpmodelConfiguration) -> tuple[int | None, list[str]]:
    if active is None:
        return None, ["the active power mode is not known: nvpmodel does not tell it"]
    if config.model(active) is None:
        return active, [f"the active power mode {active} is not in the configuration: it was set from another file"]
    return active, []


def ask_nvpmodel(command: tuple[str, ...] = COMMAND, timeout_s: float = _PATIENCE_S) -> NvpmodelStatus | str:
    """Run ``nvpmodel -q`` with an empty standard input, so that it can never get permission to reboot.

    Returns:
        The parsed output, or the reason why there is none.
    """
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return f"{' '.join(command)} did not answer within {timeout_s:g} s"
    except OSError as error:
        return f"{command[0]} could not be run: {error.strerror}"
    answer = parse_answer(done.stdout + done.stderr)
    if answer.id is None and answer.name is None and not answer.wants_reboot:
        return f"{' '.join(command)} ended with {done.returncode} and no power mode"
    return answer


def parse_answer(text: str) -> NvpmodelStatus:
    """Parse the output of ``nvpmodel -q``: optional warnings, the name of the mode, the number on the next line.

    ``NVPM WARN: fan mode is not set!``, ``NV Power Mode: MODE_30W``, ``2``.
    """
    named = re.search(r"^NV Power Mode:[ \t]*(\S+)[ \t]*$(?:\s+([0-9]{1,9})[ \t]*$)?", text, re.MULTILINE)
    return NvpmodelStatus(
        name=named[1] if named else None,
        id=int(named[2]) if named and named[2] else None,
        wants_reboot=bool(re.search(r"reboot (?:is )?required|do you want to reboot", text, re.IGNORECASE)),
    )

"""``edgetune device units``: units of systemd for the guardian, printed or put in a folder; nothing is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from edgetune.cli.options import Json
from edgetune.cli.screen import answer, print_document, print_lines


def units(
    name: Annotated[str, typer.Argument(metavar="DEVICE", help="Which one, e.g. jetson.")],
    *,
    folder: Annotated[str | None, typer.Option("--write", metavar="DIR", help="Write them into this folder.")] = None,
    json: Json = False,
) -> None:
    """Print units of systemd: one puts the device back at boot, a socket lets a group set modes without sudo.

    An administrator installs them; they run /opt/edgetune/bin/edgetune-guardian in a sandbox.

    \b
      edgetune device units jetson --write units
      sudo groupadd --system edgetune; sudo usermod -aG edgetune "$USER"
      sudo cp units/* /etc/systemd/system
      sudo systemctl enable --now edgetune-restore-jetson.service edgetune-guardian-jetson.socket
    """
    from edgetune.devices.guardian.client import LAUNCHER
    from edgetune.devices.guardian.controls import is_guarded
    from edgetune.devices.guardian.units import guardian_units
    from edgetune.errors import InputError

    if not is_guarded(name):
        raise InputError(f"{name} has no guardian", "those of jetson, nvidia:0 and host set modes")
    made = guardian_units(name, LAUNCHER)
    if folder is not None:
        _write(made, Path(folder))
    if json:
        answer({"device": name, "units": made})
    elif folder is not None:
        print_lines(*(str(Path(folder) / file) for file in made))
    else:
        print_document("\n".join(f"# /etc/systemd/system/{file}\n{text}" for file, text in made.items()))


def _write(made: dict[str, str], folder: Path) -> None:
    """Write the units.

    Raises:
        InputError: the folder cannot be used, or has a file of that name that says something else.
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.errors import InputError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}", "name another folder") from None
    for file, text in made.items():
        if (folder / file).exists() and (folder / file).read_text(errors="replace") != text:
            raise InputError(f"{folder / file} exists and is another", "name another folder, or remove it")
    for file, text in made.items():
        write_atomically(text.encode(), folder / file)

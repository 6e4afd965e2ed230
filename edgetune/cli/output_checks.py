"""Files that a command would write are never files that hold something else: a measurement is not overwritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetune.cli.output import Target
from edgetune.errors import InputError


def check_outputs(
    outputs: Mapping[str, str | None], inputs: Sequence[str | None], kinds: Mapping[str, str | None]
) -> None:
    """Refuse outputs that cannot be written, end in another format, are read too, one file, or hold something else.

    Args:
        outputs: The file that each option names; ``None`` and ``-`` are no files.
        inputs: The files that are read.
        kinds: The kind of file that an option writes, see ``Target.check``; an option that it does not name writes a
            figure.

    Raises:
        InputError: see above; nothing has been touched.
    """
    read = {Path(name).resolve() for name in inputs if name is not None and name != "-"}
    seen: dict[Path, str] = {}
    for option, name in outputs.items():
        if name is None or name == "-":
            continue
        path = Path(name).resolve()
        if path in read:
            raise InputError(f"{option}: {name} is read, and would be lost", "name another file")
        if path in seen:
            raise InputError(f"{seen[path]} and {option} both name {name}", "name two files")
        seen[path] = option
        Target(Path(name)).check(kinds.get(option, "figure"), option)

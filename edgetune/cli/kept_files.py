"""Files that a command would write are never files that hold something else: a measurement is not overwritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgetune.artifacts.formats import check_ending
from edgetune.cli.output import Target
from edgetune.errors import InputError


def check_outputs(outputs: Mapping[str, str | None], inputs: Sequence[str | None], kinds: Mapping[str, str]) -> None:
    """Refuse outputs that cannot be written, end in another format, are read too, one file, or hold other artifacts.

    Args:
        outputs: The file that each option names; ``None`` and ``-`` are no files.
        inputs: The files that are read.
        kinds: The kind of file that an option writes, one of ``edgetune.artifacts.formats.ENDINGS``, with which the
            ending of the name has to agree; an option that it does not name, e.g. of a figure, writes something else.

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
        Target(Path(name)).check()
        _refuse_other_kind(option, name, kinds.get(option))
        if option in kinds:
            check_ending(name, kinds[option], option)


def _refuse_other_kind(option: str, name: str, kind: str | None) -> None:
    """Refuse a file that holds an artifact of another kind; one that holds none is overwritten, as everywhere."""
    from edgetune.artifacts.any_file import read_any

    if not Path(name).is_file() or not Path(name).stat().st_size:
        return
    try:
        found = read_any(name).header.kind
    except InputError:
        return
    if found != kind:
        raise InputError(f"{option}: {name} is a file of kind {found}, and would be lost", "name another file")

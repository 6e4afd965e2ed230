"""What is wrong with how an input ended: its exit code, what it said, and the files that it left."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fuzzing.commands import WRITES
from fuzzing.inputs import Input
from fuzzing.seeds import Folder, Link

CODES = frozenset((0, 2, 3, 4, 5, 6))
"""Exit codes that an input may end with; signals are nobody's here."""
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e\u2066-\u2069]")
_WRITTEN_BY_ITSELF = (".journal",)
_LIVE = ("board", "prepared", "tiny", "other-board", "other-tiny")
"""Folders that edgetune may write into: the kernel's files of a board, and caches of prepared networks."""


def escapes(given: Input, out: bytes, err: bytes) -> bool:
    """Return whether what was said holds control letters; an artifact and source code on standard output may."""
    passed_on = out[:4] == b"PAR1" or given.command == "schedule kernels transform"
    return bool(_CONTROL.search(_text(err))) or (not passed_on and bool(_CONTROL.search(_text(out))))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def frames_of(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}edgetune{os.sep}" in frame.filename]
    places = [f"{Path(frame.filename).name}:{frame.name}" for frame in (ours[-2:] or frames[-2:])]
    return f"{type(error).__name__} in {' > '.join(places)}: {' '.join(str(error).split())[:90]}"


def judged(code: int, err: bytes, trouble: list[str]) -> list[str]:
    """Return what is wrong with an exit code and what was written to standard error."""
    faults = []
    text = _text(err)
    lines = text.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    if code not in CODES:
        faults.append(f"exit {code}: {trouble[-1] if trouble else ' '.join(errors)[:120]}")
    if "Traceback (most recent call last)" in text:
        faults.append("traceback: on standard error")
    if code == 0 and errors:
        faults.append("two lines: an error, and exit 0")
    if (
        code not in (0, 1)
        and not (code == 5 and not errors)
        and not (len(errors) == 1 and lines[-2:-1] == errors and lines[-1].startswith("hint: "))
    ):
        faults.append(f"two lines: exit {code} with {len(errors)} errors, last {lines[-2:]}"[:200])
    return faults


def shown_again(given: Input) -> list[str]:
    """Return what differs when an artifact that was accepted is read again, or written and read back."""
    from edgetune.artifacts import io
    from edgetune.artifacts.io import read_any
    from edgetune.artifacts.kinds import ENDINGS
    from edgetune.workflows.parse_options import parse_columns

    words = list(given.argv[1:])
    if "-" in words or "--plot" in words or len(words) < 1 or words[0].startswith("-"):
        return []
    said = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "--column"]
    try:
        artifact = read_any(words[0], parse_columns(said))
        again = read_any(words[0], parse_columns(said))
    except Exception as error:
        return [f"read again: {frames_of(error)}"]
    if not _same(artifact, again):
        return ["read again: the artifact differs"]
    faults = []
    for ending in ENDINGS[artifact.header.kind]:
        if ending == ".csv":
            continue
        try:
            io.write(artifact, f"out/copy{ending}")
            copy = read_any(f"out/copy{ending}")
        except Exception as error:
            faults.append(f"copy as {ending}: {frames_of(error)}")
            continue
        if not _same(artifact, copy):
            faults.append(f"copy as {ending}: the artifact differs: {artifact.header.kind}")
    return faults


def _same(one: Any, other: Any) -> bool:
    """Return whether two artifacts are equal, or print alike: NaN is then equal to itself, and so are arrays."""
    import numpy as np

    with np.printoptions(threshold=sys.maxsize):
        return repr(asdict(one)) == repr(asdict(other)) or (one.header.kind != "evaluation" and bool(one == other))


def changed(given: Input, work: Path) -> list[str]:
    faults = []
    written = _named_outputs(given)
    for name, data in given.files.items():
        if (
            isinstance(data, Link | Folder)
            or name.split("/")[0] in _LIVE
            or name.endswith(_WRITTEN_BY_ITSELF)
            or name in written
        ):
            continue
        path = work / name
        found = path.read_bytes() if path.is_file() else None
        if found is None or hashlib.sha256(found).digest() != hashlib.sha256(data).digest():
            faults.append(f"input changed: {'gone' if found is None else 'other content'}: {given.command}")
    return faults


def _named_outputs(given: Input) -> Mapping[str, None]:
    """Return what the command line names as an output; nothing else that was there may change."""
    words = given.argv
    return {words[at + 1]: None for at, word in enumerate(words[:-1]) if word in (*WRITES, "-o", "--jobs")}

"""Declares a workflow's options once, for the terminal, the Python interface and the headers of files.

An options dataclass has one field per option. The field's annotation holds its help in the terminal:

    @dataclass(frozen=True, kw_only=True)
    class Options:
        power_budget: Annotated[str | float | None, Option("Mean power at most, e.g. 30W.", metavar="POWER")] = None

The terminal passes the words as written; Python may pass a number in the base SI unit instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

Group = Literal["Problem", "Training", "Where", "How", "Files", "Output"]
"""Heading under which ``--help`` lists an option: what is asked, training, where it is measured, how, files, output."""


@dataclass(frozen=True, slots=True)
class Option:
    """The representation of a field in the terminal.

    Args:
        help: One sentence.
        names: As written, e.g. ``--modes``, ``-m``; ``--field-name`` where empty.
        group: Heading in ``--help``.
        metavar: Placeholder of the value.
        least, most: Bounds of a number.
        argument: Whether it is a positional argument.
        repeatable: Whether it may be given several times; the field is a sequence.
        hidden: Whether ``--help`` leaves it out.
    """

    help: str
    names: tuple[str, ...] = ()
    group: Group = "How"
    metavar: str | None = None
    least: int | None = None
    most: int | None = None
    argument: bool = False
    repeatable: bool = False
    hidden: bool = False


@cache
def declared(kind: type) -> tuple[tuple[Field[Any], Any, Option], ...]:
    """Return each field of an options dataclass with its type and its ``Option``."""
    found = []
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        annotation = hints[field.name]
        assert get_origin(annotation) is Annotated, f"{kind.__name__}.{field.name} has no Option"
        inner, *extras = get_args(annotation)
        (shown,) = (extra for extra in extras if isinstance(extra, Option))
        found.append((field, inner, shown))
    return tuple(found)


Seed = Annotated[
    int, Option("Seed of everything random; it is recorded.", ("--seed",), metavar="N", least=0),
]  # fmt: skip
Force = Annotated[bool, Option("Replace a file that edgetune did not write.", ("--force",), "Files")]
Fresh = Annotated[bool, Option("Start over: discard what was measured before.", ("--fresh",), "Files")]
Device = Annotated[
    str,
    Option(
        "jetson, nvidia:0, host, twin:orin-agx, recorded:FILE; see edgetune device.",
        ("--device", "-d"), "Where", "NAME",
    ),
]  # fmt: skip
Root = Annotated[
    str | None,
    Option("The folder with the sys and proc of the board: a mount, or a fake.", ("--root",), "Where", "DIR"),
]
Modes = Annotated[
    str | None,
    Option(
        "A preset (MAXN), grid:441, all, ranges (gpu_mhz=318:1300:3), as-found or a file. Default: MAXN.",
        ("--modes", "-m"), "Where", "SPEC",
    ),
]  # fmt: skip
BatchSizes = Annotated[
    str | Sequence[int] | None,
    Option(
        "Samples per minibatch, e.g. 1,4,16. Default: as exported, else 1; or all of a table.",
        ("--batch-sizes", "-b"), "Problem", "LIST",
    ),
]  # fmt: skip
Ops = Annotated[
    str | None,
    Option(
        "Simulate from this operator table of MODEL, as edgetune roofline ops writes it.", ("--ops",), "Files", "FILE"
    ),
]
Column = Annotated[
    Sequence[str],
    Option(
        "What a column of your own table holds, e.g. lat=minibatch_ms; note=- leaves it out; task=infer holds for all "
        "rows of a table without that column. Repeatable.",
        ("--column",), "Files", "THEIRS=OURS", repeatable=True,
    ),
]  # fmt: skip
Inputs = Annotated[str | None, Option("A .npz with an array per input.", group="Files", metavar="FILE")]
Dim = Annotated[
    Sequence[str],
    Option("Size of a symbolic dimension. Repeatable.", ("--dim",), "Problem", "NAME=SIZE", repeatable=True),
]
BatchAxis = Annotated[
    Sequence[str],
    Option(
        "Along which axis of an input samples lie; or none. Repeatable.",
        ("--batch-axis",), "Problem", "INPUT=AXIS", repeatable=True,
    ),
]  # fmt: skip
Precision = Annotated[
    str | None,
    Option(
        "What a twin computes in: fp32, fp16, ... Default: the network's own types.", ("--precision",), "How", "NAME"
    ),
]
POINT_TIMEOUT = "10m"
"""How long one point may take unless said otherwise."""
PointTimeout = Annotated[str | float, Option("Give a point up after this.", metavar="TIME")]
CoolTo = Annotated[
    str | float | None,
    Option("Wait before each point until no hotter than this, e.g. 50C.", ("--cool-to",), metavar="TEMP"),
]
COOL_TIMEOUT = "5m"
"""How long a point is waited for to cool unless said otherwise."""
CoolTimeout = Annotated[str | float, Option("Measure it anyway after this.", metavar="TIME")]

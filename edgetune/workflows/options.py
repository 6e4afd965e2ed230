"""Declares a workflow's options once, for the terminal, the Python interface and the headers of files.

An options class has one field per option. The field's annotation holds its help in the terminal:

    @options_class
    class Options:
        power_budget: Annotated[str | float | None, Option("Mean power at most, e.g. 30W.", metavar="POWER")] = None

The terminal passes the words as written; Python may pass a number in the base SI unit instead. Modules of options do
not postpone annotations: to evaluate them one by one afterwards takes twice as long.
"""

from collections.abc import Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

from edgetune.artifacts.files import in_home

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """Return a decorator without effect: only type checkers use it."""
        return lambda function: function


Group = Literal["Problem", "Training", "Where", "How", "Files", "Output"]
"""Heading under which ``--help`` lists an option: what is asked, training, where it is measured, how, files, output."""


class Option(NamedTuple):
    """The representation of a field in the terminal.

    Args:
        help: One sentence.
        names: As written, e.g. ``--modes``, ``-m``; ``--field-name`` where empty.
        group: Heading in ``--help``.
        metavar: Placeholder of the value.
        least, most: Bounds of a number.
        argument: Whether it is a positional argument.
        repeatable: Whether it may be given several times; the field is a sequence.
    """

    help: str
    names: tuple[str, ...] = ()
    group: Group = "How"
    metavar: str | None = None
    least: int | None = None
    most: int | None = None
    argument: bool = False
    repeatable: bool = False


T = TypeVar("T")


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def options_class(kind: type[T]) -> type[T]:
    """Make a class a frozen dataclass, its fields by keyword, whose methods are made with its first instance.

    Values that begin with ``~/`` are files in the home folder.

    A start needs the fields of many options classes and instances of few. The methods of a class take up to a
    millisecond to compile, ten times as long as its fields.
    """
    kind.__init__ = _first_init  # type: ignore[method-assign]
    if any(base.__dataclass_params__.frozen for base in kind.__mro__[1:-1]):  # type: ignore[attr-defined]
        _make_methods(kind)
    else:
        dataclass(init=False, repr=False, eq=False, kw_only=True)(kind)
    return kind


def _first_init(self: Any, *values: Any, **named: Any) -> None:
    _make_methods(type(self))
    self.__init__(*values, **named)


def _make_methods(whole: type) -> None:
    """Make a frozen dataclass of each options class that ``whole`` is or inherits from, and that is none yet."""
    for kind in reversed(whole.__mro__):
        if vars(kind).get("__init__") is _first_init:
            del kind.__init__  # type: ignore[misc]
            for name, each in vars(kind).get("__dataclass_fields__", {}).items():
                if name in kind.__annotations__:
                    setattr(kind, name, each)
            kind.__post_init__ = _find_home  # type: ignore[attr-defined]
            dataclass(frozen=True, kw_only=True)(kind)


def _find_home(self: Any) -> None:
    for each in fields(self):
        value = getattr(self, each.name)
        if isinstance(value, str):
            object.__setattr__(self, each.name, in_home(value))
        elif isinstance(value, tuple | list):
            object.__setattr__(self, each.name, tuple(in_home(one) if isinstance(one, str) else one for one in value))


@cache
def declared(kind: type) -> tuple[tuple[Field[Any], Any, Option], ...]:
    """Return each field of an options class with its type and its ``Option``."""
    found = []
    for each in fields(kind):
        assert get_origin(each.type) is Annotated, f"{kind.__name__}.{each.name} has no Option"
        inner, *extras = get_args(each.type)
        (shown,) = (extra for extra in extras if isinstance(extra, Option))
        found.append((each, inner, shown))
    return tuple(found)


Seed = Annotated[
    int, Option("Seed of all random choices; recorded in the output.", ("--seed",), metavar="N", least=0),
]  # fmt: skip
Force = Annotated[bool, Option("Replace a file that edgetune did not write.", ("--force",), "Files")]
Fresh = Annotated[bool, Option("Start over: discard earlier measurements.", ("--fresh",), "Files")]
Device = Annotated[
    str,
    Option(
        "jetson, nvidia:0, host, twin:orin-agx, recorded:FILE; see edgetune device.",
        ("--device", "-d"), "Where", "NAME",
    ),
]  # fmt: skip
Root = Annotated[
    str | None, Option("Folder with the board's sys and proc: a mount or a fake board.", ("--root",), "Where", "DIR")
]
Modes = Annotated[
    str | None,
    Option(
        "A preset (MAXN), grid:441, all, ranges (gpu_mhz=318:1300:3), as-found or a file. Default: MAXN.",
        ("--modes", "-m"), "Where", "SPEC",
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
Inputs = Annotated[str | None, Option("A .npz file with one array per input.", group="Files", metavar="FILE")]
Dim = Annotated[
    Sequence[str],
    Option("Size of a symbolic dimension. Repeatable.", ("--dim",), "Problem", "NAME=SIZE", repeatable=True),
]
BatchAxis = Annotated[
    Sequence[str],
    Option(
        "The axis of an input that counts samples, or none. Repeatable.",
        ("--batch-axis",), "Problem", "INPUT=AXIS", repeatable=True,
    ),
]  # fmt: skip
Precision = Annotated[
    str | None,
    Option(
        "Precision of a twin or of TensorRT: fp32, fp16, ... Default: the network's own types.",
        ("--precision",),
        "How",
        "NAME",
    ),
]
POINT_TIMEOUT = "10m"
"""How long one point may take unless said otherwise."""
PointTimeout = Annotated[str | float, Option("Stop measuring a point after this time.", metavar="TIME")]
CoolTo = Annotated[
    str | float | None,
    Option("Before each point, wait until the device has cooled to this, e.g. 50C.", ("--cool-to",), metavar="TEMP"),
]
COOL_TIMEOUT = "5m"
"""How long a point is waited for to cool unless said otherwise."""
CoolTimeout = Annotated[str | float, Option("Longest wait for cooling; then measure anyway.", metavar="TIME")]

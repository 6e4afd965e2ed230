"""Options of ``edgetune device``, its subcommands and ``edgetune doctor``."""

from collections.abc import Sequence
from typing import Annotated

from edgetune.workflows.options import Force, Option, Root, Seed, options_class

Name = Annotated[str, Option("Which one.", metavar="DEVICE", argument=True)]


@options_class
class DeviceOptions:
    """Of ``edgetune device``: a device to show, or a twin to check or calibrate."""

    name: Annotated[str | None, Option("Which one. Default: list all.", metavar="DEVICE", argument=True)] = None
    root: Root = None
    modes: Annotated[str | None, Option("Print these modes of it.", ("--modes", "-m"), "Where", "SPEC")] = None
    check: Annotated[bool, Option("Print each published figure beside the twin's.", ("--check",))] = False
    leave_one_out: Annotated[
        bool, Option("With --check: calibrate without each network in turn (minutes).", ("--leave-one-out",))
    ] = False
    calibrate: Annotated[
        str | None,
        Option("Fit the twin's constants again and write them there (minutes).", group="Files", metavar="FILE"),
    ] = None
    seed: Seed = 0
    force: Force = False


@options_class
class ShowOptions:
    """Of ``edgetune device show``."""

    name: Name = "auto"
    root: Root = None


@options_class
class ModesOptions:
    """Of ``edgetune device modes``."""

    name: Name
    spec: Annotated[str, Option("Which modes, as for --modes.", metavar="SPEC", argument=True)] = "all"
    root: Root = None


@options_class
class SetOptions:
    """Of ``edgetune device set``."""

    name: Name
    mode: Annotated[str, Option("A preset, a pattern or a plan: exactly one mode.", metavar="MODE", argument=True)]
    command: Annotated[
        Sequence[str],
        Option("Run this in the mode, then put it back.", metavar="-- COMMAND", argument=True, repeatable=True),
    ] = ()
    root: Root = None
    dry_run: Annotated[bool, Option("Say what would be set.", ("--dry-run",), "Output")] = False


@options_class
class RestoreOptions:
    """Of ``edgetune device restore``."""

    name: Name = "auto"
    root: Root = None
    dry_run: Annotated[bool, Option("Say what would be put back.", ("--dry-run",), "Output")] = False
    forget: Annotated[
        bool, Option("Put back what can be, say what stays changed, and give that up.", ("--forget",))
    ] = False


@options_class
class UnitsOptions:
    """Of ``edgetune device units``."""

    name: Annotated[str, Option("Which one, e.g. jetson.", metavar="DEVICE", argument=True)]
    folder: Annotated[str | None, Option("Write them into this folder.", ("--write",), "Files", "DIR")] = None


@options_class
class WatchOptions:
    """Of ``edgetune device watch``."""

    name: Name = "auto"
    interval: Annotated[str | float, Option("Read this often.", metavar="TIME")] = "1s"
    count: Annotated[int | None, Option("Stop after so many readings.", metavar="N", least=1)] = None
    root: Root = None


@options_class
class DoctorOptions:
    """Of ``edgetune doctor``."""

    root: Root = None

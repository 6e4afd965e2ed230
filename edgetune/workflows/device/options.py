"""Options of ``edgetune device``, its subcommands and ``edgetune doctor``."""

from collections.abc import Sequence
from typing import Annotated

from edgetune.workflows.options import Option, Root, options_class

Name = Annotated[str, Option("Name of the device, as edgetune device lists it.", metavar="DEVICE", argument=True)]


@options_class
class DeviceOptions:
    """Of ``edgetune device``: the device to show."""

    name: Annotated[
        str | None, Option("Name of the device. Default: list all devices.", metavar="DEVICE", argument=True)
    ] = None
    root: Root = None


@options_class
class ShowOptions:
    """Of ``edgetune device show``."""

    name: Name = "auto"
    root: Root = None


@options_class
class ModesOptions:
    """Of ``edgetune device modes``."""

    name: Name
    spec: Annotated[str, Option("Power modes, written as for --modes.", metavar="SPEC", argument=True)] = "all"
    root: Root = None


@options_class
class SetOptions:
    """Of ``edgetune device set``."""

    name: Name
    mode: Annotated[
        str,
        Option(
            "The power mode: a preset (MAXN), clocks (gpu_mhz=624,mem_mhz=2133) or a plan file; - for stdin.",
            metavar="MODE",
            argument=True,
        ),
    ]
    command: Annotated[
        Sequence[str],
        Option(
            "Run COMMAND in this mode, then restore the settings.", metavar="-- COMMAND", argument=True, repeatable=True
        ),
    ] = ()
    root: Root = None
    dry_run: Annotated[
        bool, Option("Print the settings that would change; change nothing.", ("--dry-run",), "Output")
    ] = False


@options_class
class RestoreOptions:
    """Of ``edgetune device restore``."""

    name: Name = "auto"
    root: Root = None
    dry_run: Annotated[
        bool, Option("Print the settings that would be restored; change nothing.", ("--dry-run",), "Output")
    ] = False
    forget: Annotated[
        bool, Option("Restore what can be restored, print the rest, and delete its record.", ("--forget",))
    ] = False


@options_class
class ExportOptions:
    """Of ``edgetune device export``."""

    plan: Annotated[str, Option("A plan, as edgetune search writes it.", metavar="PLAN", argument=True)]
    format: Annotated[str, Option("nvpmodel or shell.", ("--format",), "Output", "NAME")]
    device: Annotated[
        str | None,
        Option("The device, or a board such as jetson-agx-orin-64gb. Default: the plan's.", ("--device", "-d"), "Where",
               "NAME"),
    ] = None  # fmt: skip
    root: Root = None
    output: Annotated[str | None, Option("Write the text to FILE.", ("--output", "-o"), "Files", "FILE")] = None


@options_class
class WatchOptions:
    """Of ``edgetune device watch``."""

    name: Name = "auto"
    interval: Annotated[str | float, Option("Time between readings.", metavar="TIME")] = "1s"
    count: Annotated[int | None, Option("Stop after N readings.", metavar="N", least=1)] = None
    prometheus: Annotated[
        int | None, Option("Serve the readings to Prometheus on 127.0.0.1, port PORT, instead.", group="Output",
                           metavar="PORT", least=0, most=65535),
    ] = None  # fmt: skip
    root: Root = None


@options_class
class DoctorOptions:
    """Of ``edgetune doctor``."""

    root: Root = None

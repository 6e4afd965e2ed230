"""The options of ``edgetune fleet``."""

from dataclasses import field
from typing import Annotated

from edgetune.workflows import options
from edgetune.workflows.options import Option, options_class

Address = Annotated[
    str, Option("The scheduler, as edgetune fleet start prints it: tls://host:8786.", metavar="ADDRESS", argument=True)
]  # fmt: skip
Tls = Annotated[
    str | None,
    Option(
        "Folder of the certificate, the same on all machines. Default: ~/.config/edgetune/fleet.",
        ("--tls",), "Where", "DIR",
    ),
]  # fmt: skip


@options_class
class StartOptions:
    """The options of ``edgetune fleet start``."""

    host: Annotated[
        str | None, Option("Address to listen on. Default: all with TLS, else 127.0.0.1.", ("--host",), "Where", "HOST")
    ] = None
    port: Annotated[int, Option("Port to listen on.", ("--port",), "Where", "N", least=0, most=65535)] = 8786
    tls: Tls = None
    no_tls: Annotated[bool, Option("Neither encrypt nor check who joins: in a private network only.")] = False
    allowed_failures: Annotated[
        int,
        Option("How many boards a mode may crash before it counts as failed.", metavar="N", least=0, most=100),
    ] = 0  # fmt: skip


@options_class
class JoinOptions:
    """The options of ``edgetune fleet join``."""

    address: Address = field(kw_only=False)
    device: options.Device = "auto"
    root: options.Root = None
    tls: Tls = None
    board: Annotated[
        str | None,
        Option("Name of this board. Default: its serial number, else host and device.", ("--board",), "Where", "NAME"),
    ] = None  # fmt: skip
    contact: Annotated[
        str | None,
        Option(
            "Address where the scheduler reaches this board, which listens on PORT. Default: the board's own.",
            ("--contact",), "Where", "HOST:PORT",
        ),
    ] = None  # fmt: skip
    allow_code: Annotated[
        bool, Option("Also run Python files, commands and servers that the fleet's users send: code.")
    ] = False


@options_class
class FleetOptions:
    """The options of ``edgetune fleet show`` and ``stop``."""

    address: Address = field(kw_only=False)
    tls: Tls = None

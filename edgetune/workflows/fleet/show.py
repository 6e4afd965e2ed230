"""``edgetune fleet show`` and ``stop``."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from edgetune.workflows.fleet.client import connect
from edgetune.workflows.fleet.options import FleetOptions
from edgetune.workflows.fleet.wire import parse_address
from edgetune.workflows.reporting import Reporter


def boards(opts: FleetOptions) -> list[dict[str, Any]]:
    """Return what is known of each board.

    Raises:
        InputError, DeviceError: see ``connect``.
    """
    with connect(parse_address(opts.address, opts.tls)) as fleet:
        return [dict(facts) for _, facts in sorted(fleet.present().items())]


def lines_of(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return one line for each board."""
    if not found:
        return ["no board has joined"]
    lines = []
    for each in found:
        l4t = f", L4T {each['l4t']}" if each.get("l4t") else ""
        heat = "" if each.get("temp_c") is None else f", {each['temp_c']:.0f} C"
        failed = f"; last failure: {each['failed']}" if each.get("failed") else ""
        simulated = " SIMULATED" if each["simulated"] else ""
        doing = each["doing"] or "idle"
        lines.append(f"{each['board']}:{simulated} {each['description']}{l4t}{heat}: {doing}{failed}")
    return lines


def stop(opts: FleetOptions, reporter: Reporter) -> None:
    """Stop the scheduler.

    Raises:
        InputError, DeviceError: see ``connect``.
    """
    with connect(parse_address(opts.address, opts.tls)) as fleet:
        count = len(fleet.present())
        with suppress(OSError, TimeoutError):
            fleet.client.sync(fleet.client.scheduler.terminate)
    reporter.info(f"the scheduler has stopped; {count} board{'s wait' if count != 1 else ' waits'} for the next one")

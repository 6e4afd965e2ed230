"""``edgetune doctor``: what is installed, what the devices can do, and what to install."""

from typing import Any

import typer

from edgetune.cli.command import AnswerTerminal, command
from edgetune.cli.screen import answer, print_folded, print_lines, table
from edgetune.errors import ExitCode
from edgetune.workflows.device.options import DoctorOptions

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@command(app)
def doctor(opts: DoctorOptions, terminal: AnswerTerminal) -> None:
    """Say what is installed, what each device can do, and what to install for what is missing.

    On a board also what this user may read and set, and the line of sudoers that permits the rest. Nothing is changed,
    and nothing is tried as root. Ends with 0 when the core works, and with 4 when a library it needs is missing. With
    --root only the libraries and that board are told.
    """
    from edgetune.workflows.device import doctor as workflow

    report = workflow.doctor(opts)
    answer(report) if terminal.json else show(report)
    if any(library["extra"] is None and library["version"] is None for library in report["libraries"]):
        raise typer.Exit(ExitCode.DEVICE)


def show(report: dict[str, Any]) -> None:
    """Print the report for people."""
    print_lines(f"edgetune {report['edgetune']}, Python {report['python']}, {report['system']}")
    print_lines("", "Libraries")
    libraries = [(e["name"], e["version"] or "missing", e["purpose"], e["remedy"] or "") for e in report["libraries"]]
    table(("name", "version", "for", "to install"), libraries)
    for line in report["install_on_this_board"]:
        print_lines(f"On this board: {line}")
    for sentence in report["conflicts"]:
        print_lines(f"Conflict: {sentence}")
    if report["plugins"]:
        print_lines("", "Plug-ins of installed packages")
        table(("group", "name", "package"), [tuple(each.values()) for each in report["plugins"]])
    if report["devices"]:
        print_lines("", "Devices")
        devices = [
            (d["name"], "yes" if d["available"] else "no", d["reason"] or d["description"]) for d in report["devices"]
        ]
        table(("name", "here", "what or why not"), devices)
    for name, able in report["abilities"].items():
        print_lines("", f"{name}")
        table(("can", "what or why not"), list(able.items()))
    if report["board"]:
        _show_board(report["board"])
    print_lines("", "Permissions")
    guardian = report["guardian"]
    rows = [tuple(each.values()) for each in report["permissions"]]
    if guardian:
        rows.append(("guardian, which sets modes", guardian["state"], guardian["note"]))
    table(("what", "state", "note"), rows)
    if not guardian or not guardian["sudoers"]:
        return
    print_lines("", "To let this user set modes (an administrator types it; nothing of this has been done)")
    for line in guardian["install"]:
        print_lines(f"  {line}")
    print_lines("  sudo visudo -f /etc/sudoers.d/edgetune   # with this line, which allows these command lines alone:")
    print_lines(f"  {guardian['sudoers']}")
    for warning in guardian["warnings"]:
        print_folded(f"warning: {warning}")


def _show_board(board: dict[str, Any]) -> None:
    made_up = f" ({board['made_up']})" if board["made_up"] else ""
    print_lines("", f"Board: {board['model']}{made_up}")
    names = {"module": "module", "soc": "chip", "jetpack": "JetPack", "l4t": "L4T", "kernel": "kernel"}
    rows = [(name, board[fact]) for fact, name in {**names, "power_mode": "power mode"}.items()]
    rows = [(name, "unknown" if value is None else value) for name, value in rows]
    notes = [("note", note) for note in board["notes"]]
    table(("fact", "value"), [*rows, ("in a container", board["container"] or "no"), *notes])
    print_lines()
    table(("may this user", "state", "what or why not"), [tuple(each.values()) for each in board["abilities"]])

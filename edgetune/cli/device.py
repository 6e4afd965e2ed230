"""``edgetune device``: which devices are here, what each can do; one mode set, put back, watched."""

import shlex

import typer

from edgetune.cli.app import LazyApp
from edgetune.cli.command import AnswerTerminal, DefaultGroup, command
from edgetune.cli.screen import Screen, answer, print_document, print_folded, print_json_line, print_lines
from edgetune.workflows.device.options import (
    DeviceOptions,
    ExportOptions,
    ModesOptions,
    RestoreOptions,
    SetOptions,
    ShowOptions,
    WatchOptions,
)

app = LazyApp(DefaultGroup)


@command(app, default=True)
def device(opts: DeviceOptions, terminal: AnswerTerminal) -> None:
    """List devices with their abilities and modes; set a mode, watch the device, restore it."""
    name = opts.name or (None if opts.root is None else "jetson")
    if name is None:
        list_devices(terminal)
    else:
        show(ShowOptions(name=name, root=opts.root), terminal)


@command(app, "list", short_help="List the devices that are here.")
def list_devices(terminal: AnswerTerminal) -> None:
    """List every device that can be named, and why one is not here."""
    from edgetune.cli.device_report import report_list

    report_list(terminal)


@command(app, short_help="What a device can do, and its knobs.")
def show(opts: ShowOptions, terminal: AnswerTerminal) -> None:
    """Print what a device can do, its knobs with their values, and the modes it names."""
    from edgetune.cli.device_report import report_device
    from edgetune.workflows.device_option import open_named

    report_device(open_named(opts.name, opts.root), terminal)


@command(app, short_help="The modes of a device, one a line.")
def modes(opts: ModesOptions, terminal: AnswerTerminal) -> None:
    """Print the modes that SPEC names, one a line; by default all of them."""
    from edgetune.cli.device_report import report_modes
    from edgetune.workflows.device_option import open_named

    report_modes(open_named(opts.name, opts.root), opts.spec, terminal)


@command(app, "set", short_help="Set one mode, for a while or for one command.")
def set_mode(opts: SetOptions, terminal: AnswerTerminal) -> None:
    """Set one mode, verified by reading it back.

    It stays until edgetune device restore, which puts back what was found; with a COMMAND it lasts as long as that
    runs, whatever becomes of it, and its exit code is this one's.

    \b
      edgetune device set jetson MODE_30W
      edgetune device set jetson plan.yaml -- python train.py
    """
    from edgetune.workflows.device import device as workflow

    change = workflow.set_mode(opts, terminal.screen)
    if change.code is not None:
        raise typer.Exit(change.code)
    told = {"device": change.device, "would_set" if change.found is None else "set": change.mode.knobs()}
    if change.found is None:
        answer(told) if terminal.json else print_lines(f"would set {change.mode}")
    elif terminal.json:
        answer({**told, "found": change.found.knobs()})
    else:
        print_lines(f"set {change.mode}")
        root = [] if opts.root is None else ["--root", opts.root]
        restoring = shlex.join(["edgetune", "device", "restore", opts.name, *root])
        terminal.screen.info(f"{restoring} puts back what was found")


@command(app, short_help="Restore the settings that were found before.")
def restore(opts: RestoreOptions, terminal: AnswerTerminal) -> None:
    """Put back what a killed run, a power cut or edgetune device set left behind.

    Where another nvpmodel mode was chosen since, its limits hold. Ends with 0 when the device is as it was found, also
    when there was nothing to do, and with 6 when it is not.
    """
    from edgetune.workflows.device import device as workflow

    name, done = workflow.restore(opts, terminal.screen)
    if terminal.json:
        answer({"device": name, "would_restore" if opts.dry_run else "restored": done})
    elif done:
        print_folded(*done)
    else:
        print_lines(f"{name}: nothing to put back")


@command(app, short_help="A plan's mode for nvpmodel or sh.")
def export(opts: ExportOptions, terminal: AnswerTerminal) -> None:
    """Print the power mode of a plan for a Jetson: as an nvpmodel mode or a shell script.

    Nothing is installed or set.

    \b
      edgetune device export plan.yaml --format nvpmodel
      edgetune device export plan.yaml --format shell --root board -o mode.sh
    """
    from edgetune.artifacts.files import write_atomically
    from edgetune.workflows.device.device import export as workflow

    text = workflow(opts)
    if opts.output is not None:
        write_atomically(text.encode(), opts.output)
    if terminal.json:
        answer({"format": opts.format, "text": text})
    elif opts.output is None:
        print_document(text)


@command(app, short_help="Load, clocks, power and temperatures, live.")
def watch(opts: WatchOptions) -> None:
    """Print load, clocks, power, temperatures, memory and throttling as they change, until Ctrl-C.

    Each reading is a JSON document on a line of its own. Nothing is set, and root is not needed for what every user may
    read.

    \b
      edgetune device watch jetson --prometheus 9101
      curl http://127.0.0.1:9101/metrics
    """
    from edgetune.workflows.device.watch import open_watched

    watched = open_watched(opts)
    if opts.prometheus is not None:
        from edgetune.workflows.device.watch import serve

        serve(watched, opts.prometheus, Screen())
        return
    from edgetune.workflows.reporting import end_with_terminal

    end_with_terminal()
    for readings in watched.readings():
        print_json_line(watched.document(readings))

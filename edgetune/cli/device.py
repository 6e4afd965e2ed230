"""``edgetune device``: which devices are here, what each can do; one mode set, put back, watched."""

import shlex
from dataclasses import asdict

import typer

from edgetune.cli.app import LazyApp
from edgetune.cli.command import AnswerTerminal, DefaultGroup, command
from edgetune.cli.screen import (
    SIMULATED,
    Screen,
    answer,
    print_document,
    print_folded,
    print_json_line,
    print_lines,
    table,
)
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
    from edgetune.devices.device import auto_name, list_devices

    name = opts.name or (None if opts.root is None else "jetson")
    if name is not None:
        show(ShowOptions(name=name, root=opts.root), terminal)
        return
    listings = list_devices()
    if terminal.json:
        answer([asdict(listing) for listing in listings])
        return
    rows = [(item.name, "yes" if item.available else "no", item.reason or item.description) for item in listings]
    table(("name", "here", "what or why not"), rows)
    print_lines("", f"without --device: auto, here {auto_name()}")


@command(app, short_help="What a device can do, and its knobs.")
def show(opts: ShowOptions, terminal: AnswerTerminal) -> None:
    """Print what a device can do, its knobs with their values, and the modes it names."""
    from edgetune.artifacts.yaml_document import plain
    from edgetune.devices.capabilities import Absent
    from edgetune.devices.mode_grids import STUDIED_GRIDS, studied_grid
    from edgetune.workflows.device.doctor import capabilities
    from edgetune.workflows.device_option import open_named
    from edgetune.workflows.report.sections import cell

    opened = open_named(opts.name, opts.root)
    able = capabilities(opened)
    space = None if isinstance(opened.modes, Absent) else opened.modes.space
    if terminal.json:
        facts = {"name": opened.name, "description": opened.description, "simulated": opened.simulated}
        answer({**facts, "capabilities": able, "modes": plain(space), "conditions": plain(opened.conditions)})
        return
    print_folded(f"{opened.name}: {opened.description}")
    if opened.simulated:
        print_lines(SIMULATED)
    rows = [(what, state["here"], state["note"]) for what, state in able.items()]
    table(("capability", "here", "what or why not"), rows)
    if space is None:
        return
    print_lines("", "knobs")
    knobs = [
        (name, len(values), " ".join(cell(each, "g") or "" for each in values)) for name, values in space.knobs.items()
    ]
    table(("name", "values>", "which"), knobs + [(name, 1, f"fixed: {why}") for name, why in space.fixed.items()])
    named = {name: str(mode) for name, mode in space.presets.items()}
    named |= {
        f"grid:{count}": f"{count} modes of a published study" for count in STUDIED_GRIDS if studied_grid(space, count)
    }
    if space.listed is not None:
        named["all"] = f"the {len(space.listed)} modes it lists"
    named |= {name: f"not now: {why}" for name, why in space.withheld.items()}
    if named:
        print_lines("", "modes by name")
        table(("name", "what"), list(named.items()))
    notes = [*(f"{knob}: {why}" for knob, why in space.limited.items()), *opened.conditions.get("board_notes", ())]
    print_folded(*(f"note: {note}" for note in notes))


@command(app, short_help="The modes of a device, one a line.")
def modes(opts: ModesOptions, terminal: AnswerTerminal) -> None:
    """Print the modes that SPEC names, one a line; by default all of them."""
    from edgetune.workflows.device_option import open_named
    from edgetune.workflows.parse_options import choose_modes

    chosen = [mode.settings() for mode in choose_modes(open_named(opts.name, opts.root), opts.spec).modes]
    if terminal.json:
        answer(chosen)
        return
    names = list(dict.fromkeys(name for knobs in chosen for name in knobs))
    if not names:
        print_lines("as-found")
        return
    words = [[knobs.get(name, "-") for name in names] for knobs in chosen]
    rows = [names, *([each if isinstance(each, str) else f"{each:g}" for each in row] for row in words)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:  # a board has 100 000 modes: too many to lay out as a table that folds
        print_lines("  ".join(map(str.rjust, row, widths)))


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

"""Sets a device's mode, permanently or for one command, and restores it.

Runs a command in the foreground and waits for its end despite signals.

Writes the mode of a plan as text for a Jetson board: an nvpmodel mode or a shell script.
"""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts.io import read
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.plan import Plan
from edgetune.choices import choose
from edgetune.devices.capabilities import Absent
from edgetune.devices.guardian.client import GuardianModes, left_behind, restore_through_guardian
from edgetune.devices.guardian.controls import is_guarded
from edgetune.devices.guardian.lock import hold_to_restore
from edgetune.devices.jetson.catalog import CatalogueBoard, board_names, board_of_module, load_board
from edgetune.devices.jetson.cpu import choose as choose_cores
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.jetson.knobs import find_knobs
from edgetune.devices.jetson.mode_text import catalogue_lines, jetson_script, lines_of, nvpmodel_block
from edgetune.devices.jetson.nvpmodel import read_nvpmodel
from edgetune.devices.sysfs import Sysfs
from edgetune.devices.twin.constants import load_board as load_twin
from edgetune.devices.twin.device import parse_twin
from edgetune.errors import DeviceError, InputError
from edgetune.workflows.device.options import ExportOptions, RestoreOptions, SetOptions
from edgetune.workflows.device_option import guardian_of, open_named
from edgetune.workflows.parse_options import choose_modes
from edgetune.workflows.reporting import Reporter, SimulationLabel, handling

_GRACE_S = 10.0
"""How long a command may take to end when it is asked to, e.g. to save its work: as `docker stop` gives it."""


def run_command(command: Sequence[str]) -> int:
    """Run a command in the foreground until it ends, and return its exit code by the convention of shells.

    A Ctrl-C in the terminal reaches the command, which decides its effect. Any other signal that ends this process
    ends the command first, because the mode lasts as long as the command runs.
    """
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # then the command has to go on ignoring it
    with handling({} if ignored else {signal.SIGINT: lambda *_: None}):  # a Ctrl-C after its end loses no exit code
        held: list[int] = []  # an exception while the process starts would leave it running without a handle
        heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if callable(signal.getsignal(number))]
        try:
            with handling({number: lambda got, _: held.append(got) for number in heard}):
                process = subprocess.Popen(command)
        except OSError as error:
            raise InputError(f"cannot run {command[0]}: {error.strerror or error}", "check its name and PATH") from None
        with process:
            try:
                for number in held:
                    signal.raise_signal(number)
                code = process.wait()
            except BaseException:
                process.terminate()
                try:
                    process.wait(_GRACE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                raise
    return code if code >= 0 else 128 - code


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A mode change, done or planned.

    Args:
        device: Its name.
        mode: The requested mode, or the mode read back.
        found: The mode before the change; ``None`` where nothing was set.
        code: Exit code of the command that ran in the mode; ``None`` without a command.
    """

    device: str
    mode: Mode
    found: Mode | None = None
    code: int | None = None


def set_mode(opts: SetOptions, reporter: Reporter) -> ModeChange:
    """Set one mode: until ``restore``, or while the given command runs.

    Raises:
        InputError: the device is unknown, or the words name no mode or several.
        DeviceError: the device cannot set modes, or none that would outlast this process.
    """
    device = open_named(opts.name, opts.root)
    named = choose_modes(device, opts.mode).modes
    if len(named) != 1:
        message = f"{opts.mode!r} is {len(named)} modes, and one can be set"
        raise InputError(message, f"see edgetune device modes {device.name}")
    chosen, modes = named[0], device.modes
    if opts.dry_run:
        return ModeChange(device.name, chosen)
    if isinstance(modes, Absent):
        raise DeviceError(f"{device.name} cannot set modes: {modes.reason}", "see edgetune doctor")
    if not isinstance(modes, GuardianModes):
        message = f"a mode of {device.name} lasts only while edgetune runs on it"
        raise DeviceError(message, "name a board, e.g. jetson")
    with device.exclusive():
        try:
            found, applied = modes.read(), modes.apply(chosen)
            SimulationLabel(device.simulated, reporter).announce()
            if opts.command:
                reporter.info(f"set {applied}; running {opts.command[0]}")
                return ModeChange(device.name, applied, found, run_command(opts.command))
            modes.keep()
            return ModeChange(device.name, applied, found)
        finally:
            try:
                modes.restore()
            finally:
                for sentence in modes.recovered:
                    reporter.info(f"note: {sentence}")


def restore(opts: RestoreOptions, reporter: Reporter) -> tuple[str, list[str]]:
    """Restore the settings that a killed run, a power cut or ``set_mode`` left changed.

    Args:
        opts: The device, and what to do beside it.
        reporter: Receives a note where another process uses the device.

    Returns:
        The device's name, and a sentence for each setting restored, or to be restored by a dry run.

    Raises:
        InputError: the options exclude each other, or no device with this name has settings to restore.
        NotRestoredError: a setting could not be restored.
        DeviceError: the guardian cannot be started.
    """
    if opts.dry_run and opts.forget:
        raise InputError("--dry-run changes nothing and --forget does", "leave one of them out")
    kind, guardian = guardian_of(opts.name, opts.root)
    if not is_guarded(kind):
        raise InputError(f"the guardian sets no modes of {kind!r}", "known: jetson, nvidia:0, host")
    if opts.dry_run:
        return kind, list(left_behind(guardian))

    with hold_to_restore(kind, Path(opts.root or "/")) as in_use:
        if in_use:
            reporter.info(f"note: {in_use}; {kind} is put back all the same")
        return kind, list(restore_through_guardian(guardian, forget=opts.forget))


FORMATS = ("nvpmodel", "shell")
_JETSON = "jetson"


def export(opts: ExportOptions) -> str:
    """Return the text of a plan's mode; nothing is installed or set.

    Raises:
        InputError: the format is unknown, the plan has no mode, or is for another device, or cannot be set.
        DeviceError: ``root`` has no board, or the board is not at hand and the format needs its files.
    """
    choose(opts.format, FORMATS, what="format")
    plan = read(Plan, opts.plan)
    mode = Mode.of(plan.configuration.mode.knobs())
    if not mode.knobs():
        raise InputError(f"{opts.plan} has no mode: it sets no knob", "edgetune search --modes all finds one")
    name = opts.device or str(plan.header.conditions.get("device", ""))
    board = _board(name, plan, opts)
    head = [f"The mode of an edgetune plan: {mode}"]
    if plan.header.conditions.get("simulated"):
        head.append("SIMULATED: this mode was found on a model, not on a device.")
    if opts.format == "nvpmodel":
        return _nvpmodel(head, mode, board, opts.root)
    head.append("sh FILE set: set it. sh FILE restore: put back what was found. sh FILE run COMMAND: both. Needs root.")
    return "#!/bin/sh\n" + _commented(head) + _script(mode, opts.root)


def _commented(lines: list[str]) -> str:
    return "".join(f"# {line}\n" for line in lines)


def _board(name: str, plan: Plan, opts: ExportOptions) -> CatalogueBoard | None:
    """Return the board of the catalogue if known, after checking it with the plan.

    Raises:
        InputError: the device is no Jetson, or is not that of the plan.
        DeviceError: ``root`` has no board.
    """
    planned = str(plan.header.conditions.get("device", name))
    (kind, board), (planned_kind, planned_board) = _kind(name), _kind(planned)
    if kind is None:
        raise InputError(f"{opts.plan} names no device that has a mode to export: {name!r}", "name a board: -d jetson")
    module = plan.header.conditions.get("module")
    planned_board = planned_board or (board_of_module(str(module)) if module else None)
    if kind == _JETSON and (opts.root or board is None):
        here = detect_jetson(Sysfs(Path(opts.root or "/")))
        if opts.root and here is None:
            raise DeviceError(f"{opts.root} has no files of a Jetson", "give the folder of the board's sys and proc")
        board = (board_of_module(here.module) if here and here.module else None) or board
    board = board or planned_board
    differ = None not in (board, planned_board) and board != planned_board
    if (planned_kind and kind != planned_kind) or differ:
        was = planned_board.name if differ and planned_board else planned
        now = board.name if differ and board else name
        raise InputError(f"{opts.plan} is a plan for {was}, not for {now}", "search on that device, or leave -d out")
    if kind != _JETSON:
        hint = f"edgetune device set {name} {opts.plan} sets it"
        raise InputError(f"modes of a Jetson are exported, not of {name}", hint)
    return board


def _kind(name: str) -> tuple[str | None, CatalogueBoard | None]:
    bare = name.partition("?")[0]
    if bare.startswith("twin:"):
        return _JETSON, load_board(load_twin(parse_twin(name)[0])[0].catalogue)
    if bare in board_names():
        return _JETSON, load_board(bare)
    return (bare.partition(":")[0] if is_guarded(bare) else None), None


def _nvpmodel(head: list[str], mode: Mode, board: CatalogueBoard | None, root: str | None) -> str:
    sysfs = Sysfs(Path(root or "/"))
    if root is not None or detect_jetson(sysfs) is not None:
        found = read_nvpmodel(sysfs)
        if isinstance(found, str):
            hint = "name a board of the catalogue with -d"
            raise DeviceError(f"the modes of this board are not known: {found}", hint)
        _check_values(mode, find_knobs(sysfs).tables)
        models = {model.id: model.name for model in found.config.models}
        base, source = lines_of(found.active_model or found.config.models[0]), found.path
    elif board is not None:
        tables = {"cpu_mhz": board.cpu, "gpu_mhz": board.gpu, "mem_mhz": board.emc}
        values = {knob: [khz / 1e3 for table in each for khz in table.khz or ()] for knob, each in tables.items()}
        _check_values(mode, {**values, "cpu_cores": [float(n) for n in range(1, len(board.cpus) + 1)]})
        models = {preset.id: preset.name for file in board.presets for preset in file.modes}
        base, source = catalogue_lines(board), f"the catalogue's {board.name}, not the board's own file: compare them"
    else:
        raise InputError("the board is not known", f"name it: -d {board_names()[0]}, or give --root")
    identity = max(models) + 1
    name = "EDGETUNE" if "EDGETUNE" not in models.values() else f"EDGETUNE_{identity}"
    head += [
        f"ID={identity} is free according to {source}",
        f"Install: append this to /etc/nvpmodel.conf, then: sudo nvpmodel -m {identity}",
    ]
    return _commented(head) + nvpmodel_block(mode, base, identity, name)


def _check_values(mode: Mode, tables: Mapping[str, Sequence[float]]) -> None:
    """Check that the board has every value.

    Raises:
        InputError: it lacks one; the hint names the nearest.
    """
    for knob, value in mode.knobs().items():
        table = tables.get(knob, ())
        if not table:
            raise InputError(f"this board cannot set {knob}={value:g}", f"it sets {', '.join(tables)}")
        near = min(table, key=lambda each: abs(each - value))
        if abs(near - value) > 1e-6:
            raise InputError(f"this board has no {knob} of {value:g}", f"the nearest is {near:g}")


def _script(mode: Mode, root: str | None) -> str:
    sysfs = Sysfs(Path(root or "/"))
    if detect_jetson(sysfs) is None:
        hint = "run this on the board, or give --root; --format nvpmodel needs no board"
        raise DeviceError("a shell script needs the files of the board, whose names differ between kernels", hint)
    knobs = find_knobs(sysfs)
    _check_values(mode, knobs.tables)
    running = {path: sysfs.text(path) for path in knobs.cores.settable}
    return jetson_script(mode, knobs, choose_cores(mode.cpu_cores, knobs.cores, running))

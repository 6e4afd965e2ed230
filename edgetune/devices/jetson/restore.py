"""Restore a Jetson's settings from any state: after a killed run, a power cut, or a change of the power mode.

A snapshot holds the limits of the power mode at its time. If another mode is in force, every file that this mode names
gets the mode's own value; other files (the memory's lock, limits of clusters that the mode leaves out) get the value of
the snapshot. If the mode in force is unknown, no upper limit is raised.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from edgetune.devices.board_files import BoardFiles, LimitFiles, read_bytes, read_text
from edgetune.devices.control import RestorePlan, Snapshot, describe_change, same_configuration
from edgetune.devices.jetson.cpu import online_file, possible_limits, switch
from edgetune.devices.jetson.emc import LimitedRate, LockedRate
from edgetune.devices.jetson.knobs import JetsonKnobs, find_knobs
from edgetune.devices.jetson.nvpmodel import Nvpmodel, configuration_path, read_nvpmodel, saved_mode
from edgetune.devices.jetson.nvpmodel_grammar import UNCAPPED, Param, PowerModel
from edgetune.devices.sysfs import Sysfs
from edgetune.errors import DeviceError

_SERIAL = "proc/device-tree/serial-number"
_CPU_CLOCK = re.compile(r"/cpu/cpu([0-9]+)/cpufreq/(\w+)\Z")


def configuration_in_force(sysfs: Sysfs) -> str:
    """Return the power mode in force, its file with a checksum, and the board; empty when the mode is unknown.

    The part before the first comma names only the mode.
    """
    mode = saved_mode(sysfs)
    if mode is None:
        return ""
    words = [f"nvpmodel mode {mode}"]
    try:
        path = configuration_path(sysfs)
        digest = hashlib.sha256(read_bytes(sysfs.root, path)).hexdigest()[:12]
        words.append(f"{path.rpartition('/')[2]} {digest}")
    except OSError:
        pass
    serial = re.sub(r"\W", "", read_text(sysfs.root, _SERIAL) or "")
    return ", ".join([*words, f"board {serial}"] if serial else words)


def plan_restore(knobs: JetsonKnobs, sysfs: Sysfs, found: Snapshot, then: str) -> RestorePlan:
    """Return the value that each of a board's settings is restored to.

    Args:
        knobs: The board's knobs.
        sysfs: The board's files.
        found: The snapshot.
        then: The configuration at the time of the snapshot; empty where it was unknown.
    """
    now = configuration_in_force(sysfs)
    nvpmodel, same = read_nvpmodel(sysfs), same_configuration(then, now)
    if isinstance(nvpmodel, str) or nvpmodel.active_model is None:
        return RestorePlan(found) if same else _plan_blindly(knobs, sysfs, found, describe_change(then, now))
    name = nvpmodel.active_model.name
    modes = ModeValues(nvpmodel, nvpmodel.active_model, then, knobs, sysfs)
    if same:  # it may have been chosen again after another mode, which then gave limits to the clusters left out
        target = found | modes.shown_of_other_modes(found)
        note = "" if target == found else f"clusters that {name} leaves out keep the limits of another mode"
        return RestorePlan(target, note, stays=modes.of_other_modes(found))
    values = modes.values(found)
    chosen = bool(then) and then.partition(",")[0] != now.partition(",")[0]
    # same mode, changed file: whether the mode was applied since is unknown, so its limits are not exceeded
    target = within(found | values, lambda _: None, knobs) if chosen else within(found, values.get, knobs)
    stays = modes.of_other_modes(found) if chosen else ()
    if target == found:
        return RestorePlan(found, stays=stays)
    note = f"{describe_change(then, now)}, and the limits of {name} hold"
    return RestorePlan(target, note, stays=stays)


def _plan_blindly(knobs: JetsonKnobs, sysfs: Sysfs, found: Snapshot, note: str) -> RestorePlan:
    """Return a plan that raises no upper limit, because the unknown mode may allow less than the snapshot."""

    target = within(found, lambda path: sysfs.text(path) or None, knobs)
    return RestorePlan(
        target,
        note,
        withheld=tuple(f"/{path} stays {now}, was {found[path]}" for path, now in target.items() if now != found[path]),
        remedy="choose the power mode with `sudo nvpmodel -m NUMBER`, then run `edgetune device restore jetson`; "
        "or restart the machine, which undoes every setting, and run it then",
    )


def nvpmodel_in_force(
    sysfs: Sysfs, found: Mapping[str, str] | None = None, knobs: JetsonKnobs | None = None
) -> Nvpmodel | str:
    """Return the configuration, whose active mode is known only where the kernel's limits are those of the mode.

    Args:
        sysfs: The board's files.
        found: Values before edgetune's own changes; none where it has made none.
        knobs: The board's knobs, where they were found already.
    """
    nvpmodel = read_nvpmodel(sysfs)
    if isinstance(nvpmodel, str) or nvpmodel.active_model is None:
        return nvpmodel
    model = nvpmodel.active_model
    try:
        knobs = knobs or find_knobs(sysfs)
    except DeviceError:
        return nvpmodel
    if not (wrong := ModeValues(nvpmodel, model, "", knobs, sysfs).differing(found or {})):
        return nvpmodel
    note = f"the power mode is not known: the limits are not those of {model.name}, which nvpmodel saved (/{wrong[0]})"
    return replace(nvpmodel, active=None, notes=(*nvpmodel.notes, note))


class ModeValues:
    """The values that one power mode gives to the files that edgetune sets and that exist now or are in the snapshot.

    Args:
        nvpmodel: The configuration in force.
        model: The mode.
        then: The configuration at the time of the snapshot.
        knobs: The board's knobs.
        sysfs: The board's files.
    """

    def __init__(self, nvpmodel: Nvpmodel, model: PowerModel, then: str, knobs: JetsonKnobs, sysfs: Sysfs) -> None:
        self._nvpmodel = nvpmodel
        self._model = model
        named = re.match(r"nvpmodel mode ([0-9]+)", then)
        self._earlier = nvpmodel.config.model(int(named[1])) if named else None
        self._knobs = knobs
        self._sysfs = sysfs
        settable = [path for paths in knobs.files.values() for path in paths]
        self._by_place = {self._place(path): path for path in settable}

    def _place(self, path: str) -> str:
        return os.path.realpath(self._sysfs.root / path)

    def values(self, found: Snapshot) -> dict[str, str]:
        """Return the value of each file; limits of a clock only where both are known.

        Limits that the mode leaves out, of clusters that are off, stay where they are those of another mode: nvpmodel
        set them on the way to this one. A cluster that is on has those that edgetune set.

        Args:
            found: The snapshot.
        """
        given = self._given(found)
        for pair in limit_pairs(self._knobs):
            if not all(path in given or path in found for path in pair.paths):
                given = {path: value for path, value in given.items() if path not in pair.paths}
        return given | self.shown_of_other_modes(found)

    def shown_of_other_modes(self, found: Snapshot) -> Snapshot:
        """Return the limits of ``of_other_modes`` that clusters which are off show now, where the snapshot has them."""
        others, shown = self.of_other_modes(found), Snapshot()
        for pair, core in possible_limits(self._knobs.cores).items():
            present = {path: self._sysfs.text(path) for path in pair.paths}
            if present in others and found.keys() >= present.keys() and self._sysfs.text(online_file(core)) == "0":
                shown |= present
        return shown

    def of_other_modes(self, found: Mapping[str, str]) -> tuple[Snapshot, ...]:
        """Return the limits that other modes give to the CPU clusters that this mode leaves out, a pair each.

        Args:
            found: The snapshot.
        """
        given, others = self._given(found), [self._given(found, model) for model in self._nvpmodel.config.models]
        return tuple(
            {path: other[path] for path in pair.paths}
            for pair in possible_limits(self._knobs.cores)
            for other in others
            if not any(path in given for path in pair.paths) and all(path in other for path in pair.paths)
        )

    def differing(self, found: Mapping[str, str]) -> list[str]:
        """Return the files, of upper limits and of cores, whose present value is not the mode's.

        Args:
            found: Values before edgetune's own changes, which count instead of the present ones.
        """
        given, grains = self._given(found), {pair.high: pair.grain for pair in limit_pairs(self._knobs)}
        grains |= dict.fromkeys(map(online_file, self._knobs.cores.switchable), 1)
        return [
            path
            for path, grain in grains.items()
            if path in given
            and (now := found.get(path, self._sysfs.text(path))).isdecimal()  # a cluster that is off shows no limits
            and abs(int(now) - int(given[path])) >= grain
        ]

    def _given(self, found: Mapping[str, str], model: PowerModel | None = None) -> dict[str, str]:
        given: dict[str, str] = {}
        for setting in (model or self._model).settings:
            param = self._nvpmodel.config.params.get(setting.param)
            path = None if param is None else self._settable(param, setting.argument)
            if param is None or path is None or not (path in found or os.path.exists(self._sysfs.root / path)):
                continue
            if self._knobs.emc_cap is not None and path == self._knobs.emc_cap.path:
                value = self._cap(int(setting.value), found)
            elif isinstance(setting.value, int):
                value = self._clock(param, path, setting.value)
            else:
                value = setting.value
            if value is not None:
                given[path] = value
        return given

    def _settable(self, param: Param, argument: str) -> str | None:
        """Return the settable file of an argument; a policy is also found by its core number if its link is missing."""
        for path in param.declared(argument):
            if ours := self._by_place.get(self._place(path.lstrip("/"))):
                return ours
            if core := _CPU_CLOCK.search(path):
                policy = f"sys/devices/system/cpu/cpufreq/policy{core[1]}/{core[2]}"
                if self._place(policy) in self._by_place:
                    return policy
        return None

    def _clock(self, param: Param, path: str, value: int) -> str | None:
        """Return the nearest clock of the table, as nvpmodel does; ``None`` without a table."""
        table = self._table(param, path)
        if not table:
            return None
        return str(table[-1] if value >= UNCAPPED else min(table, key=lambda clock: (abs(clock - value), clock)))

    def _table(self, param: Param, path: str) -> tuple[int, ...]:
        for listed in param.declared("FREQ_TABLE"):
            if table := self._sysfs.table(listed.lstrip("/")):  # else of another kernel, or of an offline cluster
                return table
        if path.endswith("_freq") and "/cpufreq/" in path and self._knobs.cpu is not None:
            return self._knobs.cpu.table
        return () if self._knobs.gpu is None else self._knobs.gpu.table

    def _cap(self, limit: int, found: Mapping[str, str]) -> str | None:
        """Return the memory cap of the mode; ``None`` for 0, which would be the lowest rate and is never intended.

        The kernel rounds a cap to a rate of its table, so a present cap that allows the same rates is kept. For no
        limit (-1) kernels set different caps: the present cap is kept too, unless it equals an earlier mode's cap in
        the snapshot.
        """
        cap, emc = self._knobs.emc_cap, self._knobs.emc
        if cap is None or emc is None:
            return None
        if cap.zero_is_none:
            return str(limit)
        now = self._sysfs.read_int(cap.path)
        if limit <= 0:
            return None
        if limit >= UNCAPPED:
            capped_then = self._earlier is None or self._earlier.get("EMC", "MAX_FREQ") != limit
            earlier = now is None or (capped_then and str(now) == found.get(cap.path))
            return str(emc.table[-1] if earlier else now)
        allowed = [hz for hz in emc.table if hz <= limit] or [emc.table[0]]
        same = now is not None and [hz for hz in emc.table if hz <= now] == allowed
        return str(now if same else allowed[-1])


def limit_pairs(knobs: JetsonKnobs) -> Iterator[LimitFiles]:
    """Yield each pair of limits that edgetune may set."""
    yield from possible_limits(knobs.cores)
    if knobs.gpu is not None:
        yield knobs.gpu.limits
    if knobs.emc is not None and isinstance(knobs.emc.rate, LimitedRate):
        yield knobs.emc.rate.limits


def within(found: Snapshot, bound: Callable[[str], str | None], knobs: JetsonKnobs) -> Snapshot:
    """Return the snapshot reduced to bounds: no upper limit, online core or memory rate exceeds its bound.

    Args:
        found: The snapshot.
        bound: Returns the highest value that a file may get; ``None`` for no bound.
        knobs: The board's knobs.
    """
    target = dict(found)
    for path in map(online_file, knobs.cores.switchable):
        if target.get(path) == "1" and bound(path) == "0":
            target[path] = "0"
    for pair in limit_pairs(knobs):
        if pair.high in target and _number(limit := bound(pair.high)) is not None:
            target[pair.high] = min(target[pair.high], str(limit), key=int)
        if pair.low in target and pair.high in target:
            target[pair.low] = min(target[pair.low], target[pair.high], key=int)
    cap = knobs.emc_cap
    if cap is not None and cap.path in target and _number(limit := bound(cap.path)) is not None:
        target[cap.path] = min(target[cap.path], str(limit), key=lambda text: cap.ceiling(int(text)))
    return _rate_within_cap(target, knobs)


def _rate_within_cap(target: Snapshot, knobs: JetsonKnobs) -> Snapshot:
    """Return the target with the locked memory rate reduced to its cap, so that a restore does not raise the cap."""
    cap, emc = knobs.emc_cap, knobs.emc
    if cap is None or emc is None or not isinstance(emc.rate, LockedRate) or emc.rate.rate not in target:
        return target
    ceiling = cap.ceiling(int(target[cap.path])) if cap.path in target else float("inf")
    if int(target[emc.rate.rate]) <= ceiling:
        return target
    allowed = [hz for hz in emc.table if hz <= ceiling] or [emc.table[0]]
    return {**target, emc.rate.rate: str(allowed[-1])}


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


class BoardRestore:
    """One attempt to restore a board.

    Args:
        files: The board's files.
        knobs: The board's knobs.
        found: The values to restore.
        stays: Limits of hidden clusters that stay; see ``RestorePlan``.
    """

    def __init__(self, files: BoardFiles, knobs: JetsonKnobs, found: Snapshot, stays: Sequence[Snapshot] = ()) -> None:
        self._files = files
        self._knobs = knobs
        self._stays = stays
        self._found = dict(found) if knobs.emc is None else knobs.emc.restorable(found)
        self._trouble: list[str] = []
        self._seen_right: set[str] = set()

    def run(self) -> list[str]:
        """Restore all settings, then read each; return a sentence for each that differs."""
        files, knobs, found = self._files, self._knobs, self._found
        if knobs.emc is not None:
            self._attempt(knobs.emc.restore, files, found)
        if knobs.gpu is not None:
            self._attempt(knobs.gpu.apply, files, None, found)
        for core in knobs.cores.switchable:
            if found.get(online_file(core)) == "1":
                self._attempt(partial(switch, on=True), files, [core])
        if knobs.cpu is not None:
            for pair, core in possible_limits(knobs.cores).items():
                if self._attempt(knobs.cpu.restore_limits, files, pair, core, found, self._stays):
                    self._seen_right.update(pair.paths)
        for core in reversed(knobs.cores.switchable):
            if found.get(online_file(core)) == "0":
                self._attempt(partial(switch, on=False), files, [core])
        return [wrong for path, value in found.items() if (wrong := self._difference(path, value))]

    def _attempt(self, action: Callable[..., None], *arguments: object) -> bool:
        """Run an action and return whether it succeeded; keep the message of an error."""
        try:
            action(*arguments)
        except DeviceError as error:
            self._trouble.append(error.message)
            return False
        return True

    def _difference(self, path: str, value: str) -> str | None:
        """Return a sentence about a setting that differs from its target; ``None`` if it does not."""
        if path not in self._files.settable:
            return f"/{path} is not put back to {value}: the board shows no such setting now"
        try:
            emc = self._knobs.emc
            now = self._files.read(path) if emc is None else emc.now(self._files, path, value)
        except DeviceError as error:
            # limits of a cluster that is offline again were verified while it was online
            return None if path in self._seen_right else f"{error.message}; it was {value}"
        if now == value:
            return None
        reason = next((message for message in self._trouble if f"/{path} " in message), None)
        return f"/{path} reads {now}, not {value} as found" + (f" ({reason})" if reason else "")

"""Write a mode as a POSIX shell script for a board: the files that edgetune writes, in the same order, each read back.

    apply     cores on -> CPU limits -> GPU awake, limits, asleep again -> memory -> other cores off
    restore   memory -> GPU -> cores on -> CPU limits -> cores off

The script records what it finds in a file before it changes it.

Write a mode as a ``POWER_MODEL`` of an nvpmodel configuration, in the grammar of ``nvpmodel_grammar``.
"""

from collections.abc import Sequence

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.catalog import CatalogueBoard
from edgetune.devices.jetson.cpu import online_file
from edgetune.devices.jetson.emc import GRAIN_HZ, LockedRate
from edgetune.devices.jetson.knobs import JetsonKnobs
from edgetune.devices.jetson.nvpmodel_grammar import UNCAPPED, PowerModel

_HEAD = r"""ROOT=${ROOT:-}
STATE=${STATE:-$ROOT/run/edgetune-mode}
bad=0

die() { echo "error: $1" >&2; echo "hint: see dmesg; another program may set it too" >&2; exit 1; }
get() { cat "$ROOT/$1" 2>/dev/null; }
found() { sed -n "s|^$1 ||p" "$STATE"; }
save() { # records a file once, before its first change
  [ -n "$(found "$1")" ] && return
  printf '%s %s\n' "$1" "$(get "$1")" >>"$STATE" || die "$STATE cannot be written"
}
same() { # FILE VALUE GRAIN: whether a file holds a value, numbers within GRAIN - 1
  now=$(get "$1")
  [ "$now" = "$2" ] && return
  [ -n "$now" ] && [ -n "$2" ] || return 1
  case "$now$2" in *[!0-9]*) return 1 ;; esac
  [ "$((now - $2))" -lt "$3" ] && [ "$(($2 - now))" -lt "$3" ]
}
write() { # FILE VALUE GRAIN: writes, and reads back for up to 2 s
  for wait in 1 1 0; do
    { printf '%s\n' "$2" >"$ROOT/$1"; } 2>/dev/null
    same "$1" "$2" "${3:-1}" && return
    sleep "$wait"
  done
  echo "error: /$1 was set to $2 but reads $(get "$1")" >&2
  return 1
}
put() { same "$1" "$2" "${3:-1}" || write "$@"; }
limits() { # LOW_FILE HIGH_FILE LOW HIGH GRAIN: the limit that widens the range first
  if [ "$4" -ge "$(get "$1")" ]; then
    write "$2" "$4" "$5" && write "$1" "$3" "$5"
  else
    write "$1" "$3" "$5" && write "$2" "$4" "$5"
  fi
}
restore_cpu() {
  sed -n 's|^\(.*/cpufreq/policy[0-9]*\)/scaling_min_freq .*|\1|p' "$STATE" | while read -r p; do
    limits "$p/scaling_min_freq" "$p/scaling_max_freq" \
      "$(found "$p/scaling_min_freq")" "$(found "$p/scaling_max_freq")" 1 || echo failed
  done | grep -q failed && bad=1
}
pin_cpu() { # KHZ: pins every policy (cluster) that has one of $CORES
  for p in "$ROOT"/sys/devices/system/cpu/cpufreq/policy*; do
    p=${p#"$ROOT"/} wanted=
    for c in $(get "$p/related_cpus"); do
      case " $CORES " in *" $c "* | *" all "*) wanted=1 ;; esac
    done
    [ -n "$wanted" ] && [ -n "$(get "$p/scaling_min_freq")" ] || continue
    save "$p/scaling_min_freq"; save "$p/scaling_max_freq"
    limits "$p/scaling_min_freq" "$p/scaling_max_freq" "$1" "$1" 1 || die "/$p cannot be pinned to $1 kHz"
  done
}
"""

_TAIL = r"""
restore() {
  [ -f "$STATE" ] || { echo "nothing to restore"; return; }
  bad=0
  undo
  [ "$bad" = 0 ] || { echo "error: not everything was restored; $STATE says what was found" >&2; return 1; }
  rm -f "$STATE"
}

keep=
case "${1:-}" in
  restore) restore; exit ;;
  set) keep=1 ;;
  run) shift; [ $# -gt 0 ] || { echo "usage: $0 set | restore | run COMMAND" >&2; exit 2; } ;;
  *) echo "usage: $0 set | restore | run COMMAND" >&2; exit 2 ;;
esac
[ -f "$STATE" ] && { echo "error: $STATE exists: a mode is set" >&2; echo "hint: $0 restore" >&2; exit 1; }
: >"$STATE" || exit 1
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
apply
[ -n "$keep" ] && { trap - EXIT; echo "set; $0 restore puts back what was found"; exit 0; }
"$@"
"""


def jetson_script(mode: Mode, knobs: JetsonKnobs, on: frozenset[int]) -> str:
    """Return the script that sets a board's mode.

    Args:
        mode: Values of the board's tables, for knobs that it has.
        knobs: The board's knobs and their files.
        on: Numbers of the cores to run, when the mode sets ``cpu_cores``.
    """
    cores = "all" if mode.cpu_cores is None else " ".join(map(str, sorted(on)))
    switches = list(knobs.cores.switchable) if mode.cpu_cores is not None else []
    apply = [f"save {online_file(core)}" for core in switches]
    apply += [f"put {online_file(core)} 1 || die 'core {core} stays off'" for core in switches if core in on]
    undo_first: list[str] = []
    undo_last: list[str] = []
    if mode.cpu_mhz is not None:
        apply.append(f"pin_cpu {round(mode.cpu_mhz * knobs.clocks['cpu_mhz'].per_mhz)}")
    if mode.gpu_mhz is not None and knobs.gpu is not None:
        done, undone = _gpu(knobs, round(mode.gpu_mhz * 1e6))
        apply, undo_last = apply + done, undone
    if mode.mem_mhz is not None and knobs.emc is not None:
        done, undo_first = _memory(knobs, round(mode.mem_mhz * 1e6))
        apply += done
    apply += [f"put {online_file(c)} 0 || die 'core {c} stays on'" for c in reversed(switches) if c not in on]
    back = [f'[ "$(found {online_file(c)})" != 1 ] || put {online_file(c)} 1 || bad=1' for c in switches]
    off = [f'[ "$(found {online_file(c)})" != 0 ] || put {online_file(c)} 0 || bad=1' for c in reversed(switches)]
    undo = [*undo_first, *undo_last, *back, "restore_cpu", *off]
    body = "\n".join(["apply() {", *(f"  {line}" for line in apply), "}", "undo() {", *(f"  {u}" for u in undo), "}"])
    return f'{_HEAD}CORES="{cores}"\n{body}\n{_TAIL}'


def _gpu(knobs: JetsonKnobs, hz: int) -> tuple[list[str], list[str]]:
    assert knobs.gpu is not None
    (low, high), grain, power = knobs.gpu.limits.paths, knobs.gpu.limits.grain, knobs.gpu.power
    wake = [] if power is None else [f"put {power} on || die 'the GPU stays asleep'"]
    sleep = [] if power is None else [f'put {power} "$(found {power})" || bad=1']
    saved = [f"save {path}" for path in (low, high, *([] if power is None else [power]))]
    pin = f"limits {low} {high} {hz} {hz} {grain} || die 'the GPU clock cannot be pinned to {hz} Hz'"
    undo = f'limits {low} {high} "$(found {low})" "$(found {high})" {grain} || bad=1'
    rewake = [] if power is None else [f"put {power} on || bad=1"]
    guarded = [f'if [ -n "$(found {high})" ]; then', *rewake, undo, *sleep, "fi"]
    done = [line.replace("bad=1", "die 'the GPU stays awake'") for line in sleep]
    return [*saved, *wake, pin, *done], guarded


def _memory(knobs: JetsonKnobs, hz: int) -> tuple[list[str], list[str]]:
    assert knobs.emc is not None
    rate, cap = knobs.emc.rate, knobs.emc.cap
    apply = [] if cap is None else [
        f"save {cap.path}",
        f'[ "$(get {cap.path})" -le 0 ] || [ "$(get {cap.path})" -ge {hz} ] || '
        f"put {cap.path} {hz} || die 'the cap on the memory clock cannot be raised'",
    ]  # fmt: skip
    undo_cap = [] if cap is None else [f'[ -z "$(found {cap.path})" ] || put {cap.path} "$(found {cap.path})" || bad=1']
    if not isinstance(rate, LockedRate):
        low, high = rate.limits.paths
        apply += [f"save {low}", f"save {high}"]
        apply.append(f"limits {low} {high} {hz} {hz} {rate.limits.grain} || die 'the memory clock cannot be pinned'")
        back = f'limits {low} {high} "$(found {low})" "$(found {high})" {rate.limits.grain} || bad=1'
        undo = [f'[ -z "$(found {high})" ] || {back}']
    else:
        apply += [f"save {path}" for path in (rate.now, *rate.helpers, rate.lock)]
        apply.append(f"put {rate.lock} 1 || die 'the memory clock cannot be locked'")
        apply.append(f'{{ printf "%s\\n" {hz} >"$ROOT/{rate.rate}"; }} 2>/dev/null; sleep 1')
        apply.append(f"if ! same {rate.now} {hz} {GRAIN_HZ}; then")
        apply += [f"put {helper} 1 || die '/{helper} refuses 1'" for helper in rate.helpers]
        apply += [f'printf "%s\\n" {hz} >"$ROOT/{rate.rate}"; sleep 1', "fi"]
        apply.append(f"same {rate.now} {hz} {GRAIN_HZ} || die 'the memory clock does not hold {hz} Hz'")
        again = f'printf "%s\\n" "$(found {rate.now})" >"$ROOT/{rate.rate}"'
        undo = [f'[ "$(found {rate.lock})" != 1 ] || {again} || bad=1']
        for path in (*reversed(rate.helpers), rate.lock):
            undo.append(f'[ -z "$(found {path})" ] || put {path} "$(found {path})" || bad=1')
    return apply, [*undo, *undo_cap]


Line = tuple[str, str, str]
"""Parameter, argument and value of one line, e.g. ``("GPU", "MAX_FREQ", "612000000")``."""


def lines_of(model: PowerModel) -> list[Line]:
    """Return the lines of a parsed mode; ``UNCAPPED`` becomes -1."""
    return [(s.param, s.argument, "-1" if s.value == UNCAPPED else str(s.value)) for s in model.settings]


def catalogue_lines(board: CatalogueBoard) -> list[Line]:
    """Return the lines of a board's mode without limits, or of its first mode, as the catalogue describes them."""
    file = board.presets[0]
    preset = next((mode for mode in file.modes if mode.gpu_khz[1] is None), file.modes[0])
    lines = [("CPU_ONLINE", f"CORE_{cpu}", str(int(cpu in preset.cores))) for cpu in board.cpus]
    for mask, value in preset.masks.items():
        lines.append((mask.upper().replace("_PG_MASK", "_POWER_GATING"), mask.upper(), str(value)))
    lines.append(("GPU_POWER_CONTROL_ENABLE", "GPU_PWR_CNTL_EN", "on"))
    for name in preset.cpu_khz:
        lines += [(name, "MIN_FREQ", "0"), (name, "MAX_FREQ", "-1")]
    lines += [("GPU", "MIN_FREQ", "0"), ("GPU", "MAX_FREQ", "-1")]
    return [*lines, ("GPU_POWER_CONTROL_DISABLE", "GPU_PWR_CNTL_DIS", "auto"), ("EMC", "MAX_FREQ", "-1")]


def nvpmodel_block(mode: Mode, base: Sequence[Line], identity: int, name: str) -> str:
    """Return the block of a mode, with comments on lines of their own: no file of NVIDIA's has one behind a value.

    CPU and GPU are pinned: their lower and upper limits are equal. nvpmodel only caps the memory clock.

    Args:
        mode: Clocks in MHz; a knob that is ``None`` keeps its lines of ``base``.
        base: Lines of another mode of this board; their order is kept.
        identity: A free number.
        name: A free name.
    """
    cpus = [int(argument.removeprefix("CORE_")) for param, argument, _ in base if param == "CPU_ONLINE"]
    was_on = {f"CORE_{cpu}" for cpu in cpus} - {a for p, a, value in base if p == "CPU_ONLINE" and value == "0"}
    fixed = 0 if 0 in cpus else 1  # the files of TX2 leave out core 0, which always runs
    ordered = sorted(cpus, key=lambda cpu: (cpu != 0, f"CORE_{cpu}" not in was_on, cpu))
    on = ordered if mode.cpu_cores is None else ordered[: mode.cpu_cores - fixed]
    text, told = [f"< POWER_MODEL ID={identity} NAME={name} >"], ""
    for param, argument, value in base:
        new, what = value, "as in the mode that this one is derived from"
        if param == "CPU_ONLINE" and mode.cpu_cores is not None:
            running = int(argument.removeprefix("CORE_")) in on
            new, what = str(int(running)), "this core runs" if running else "this core is switched off"
        elif argument in ("MIN_FREQ", "MAX_FREQ"):
            if param == "GPU" and mode.gpu_mhz is not None:
                new, what = str(round(mode.gpu_mhz * 1e6)), "both limits of the GPU clock, Hz"
            elif param == "EMC" and mode.mem_mhz is not None:
                new, what = str(round(mode.mem_mhz * 1e6)), "limit of the memory clock, Hz; nvpmodel cannot pin it"
            elif param.startswith("CPU_") and mode.cpu_mhz is not None:
                new, what = str(round(mode.cpu_mhz * 1e3)), "both limits of each cluster, kHz"
        text += [] if what == told else [f"# {what}"]
        text.append(f"{param} {argument} {new}")
        told = what
    return "\n".join(text) + "\n"

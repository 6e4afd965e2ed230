"""The profile: a table of measured points, one row per (workload, task, batch size, power mode)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from edgetune.artifacts.artifact import Table
from edgetune.artifacts.columns import FiniteFloat, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from edgetune.artifacts.header import Header
from edgetune.artifacts.mode import SETTINGS, Mode
from edgetune.artifacts.table_checks import first_true
from edgetune.errors import InputError

KIND = "profile"
VERSION = 2
"""Version 2 added ``power_from_s``, ``temp_start_c`` and ``round``; all rows of version 1 are without.
``others_cpu_share`` and the columns after it came later and may be missing."""

Task = Literal["infer", "train"]
TASKS: tuple[Task, ...] = ("infer", "train")

Status = Literal["ok", "failed", "throttled", "drifted", "swapped"]
"""``ok`` rows are measurements; every other row is kept, with its ``reason``, and never averaged in."""

REQUIRED_COLUMNS: tuple[str, ...] = ("workload", "task", "batch_size", "minibatch_s")
"""Columns a table needs, besides at least one knob, to be read as a profile."""

RAW_COLUMNS = (
    "times_s", "power_trace", "look_s", "look_temp_c", "look_throttle_events", "look_clocks", "look_clocks_mhz",
)  # fmt: skip
"""Columns of raw samples."""


THROTTLED_SHARE = 0.1
"""Share of the periods of a CPU quota, throttled, from which the mean time counts: a quota below the busy threads stops
nearly every period, one above them stops a period at most now and then."""


@dataclass(frozen=True, slots=True)
class Point:
    """A point to measure: one workload, task and batch size in one power mode."""

    workload: str
    task: Task
    batch_size: int
    mode: Mode

    def __str__(self) -> str:
        return f"{self.workload} {self.task} batch {self.batch_size} [{self.mode}]"


@dataclass(frozen=True, slots=True)
class PowerSample:
    """One reading of a power sensor; ``time_s`` counts from the start of the measured window."""

    time_s: float
    power_w: float


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """One measured point. Anything not measured is ``None``, never zero.

    Args:
        workload: Name of the network, e.g. ``resnet18``.
        task: ``infer`` or ``train``.
        batch_size: Samples per minibatch.
        minibatch_s: Median time of one steady minibatch, s, or the mean, see ``is_mean``. ``None`` only when ``status``
            is not ``ok``.
        cpu_cores, cpu_mhz, gpu_mhz, mem_mhz, power_limit_w, power_mode: The mode, see ``Mode``.
        device: Device name, e.g. ``host``, ``twin:orin-agx``.
        power_w: Mean power over the measured window, settling time discarded, W.
        power_peak_w: Highest power sample in that window, W.
        energy_j: Energy per minibatch, J.
        minibatch_p95_s: 95th percentile of the steady minibatch times, s.
        minibatch_ci95_low_s, minibatch_ci95_high_s: 95 % confidence interval of ``minibatch_s``, s.
        minibatches: Steady minibatches timed (warm-ups not counted).
        warmups: Leading minibatches judged to be warm-up.
        power_samples: Fresh sensor readings that count: they lie in the measured window, after power has settled.
        power_source: What the power figure covers, e.g. ``rapl:package-0``.
        temp_max_c: Highest temperature seen, degrees Celsius.
        throttled: Whether the device reported throttling.
        status: See ``Status``.
        reason: Why the row is not ``ok``, why power is missing, or slight throttling during the measurement.
        duration_s: Duration of this point, set-up included, s.
        started: UTC time, ISO 8601.
        times_s: Raw minibatch times, warm-ups first, s.
        power_trace: Raw power samples, those before power settled included.
        power_from_s: Begin of the first counted reading on the time axis of ``power_trace``, s. ``power_w`` is the mean
            of the ``power_samples`` readings after it, each weighted by the time since the reading before (one refresh
            interval if readings are missing).
        temp_start_c: Temperature when work began, degrees Celsius.
        round: Number of the visit to the point, from 1; see ``--interleave-repeats``.
        others_cpu_share: Share of the workload's CPUs that other processes used while it ran, 0 to 1.
        look_s: Times at which a soak read the device, on the time axis of ``power_trace``, s; see ``--soak``.
        look_temp_c, look_throttle_events: Its readings: temperature, degrees Celsius, and throttling events so far.
        look_clocks, look_clocks_mhz: Names of the clocks, and all readings of the first, of the second ..., MHz.
        own_value, own_unit: The command's own figure, a median, see ``--step-pattern``.
        idle_gap_s, idle_minibatch_s: Gaps without work, and the median time of the first minibatch after each, s; see
            ``--idle-gap``.
        ttft_s, ttft_p95_s, ttft_p99_s: Time to the first token of an answer of a server, s: median and percentiles.
        token_s, token_p95_s, token_p99_s: Time of each token after the first, a mean for each answer, s.
        prompt_tokens, output_tokens: Lengths of prompts and answers, medians.
        tokens_per_s: Output tokens of all streams per second.
        tokens_counted: ``server``; ``tokenizer`` where its tokenizer tells the tokens of a chunk of an answer; or
            ``estimated`` where each chunk counts as a token.
        own_ttft_s, own_token_s: The server's own times of a prompt and of a token, medians, s.
        memory_peak_bytes: Most memory that the workload's processes had resident at once, its loading included, bytes.
        memory_device_bytes: Most memory that PyTorch had allocated on the GPU, bytes.
        memory_available_min_bytes: Least memory that the machine had left, ``MemAvailable``, bytes.
        swap_in_bytes: What the machine read back from swap meanwhile, bytes.
        build_s: Time that building the TensorRT engine took before the measurement, or when it was built, s.
        engine_bytes: Size of the TensorRT engine, bytes.
        bunched_share: Share of the answers of which most chunks arrived together, 0 to 1.
        board: The board that measured the row, where several share a sweep: its serial number or name.
        cpu_throttled_share: Share of the periods of a CPU quota in which it stopped the workload, 0 to 1.
        minibatch_mean_s: Mean time of a steady minibatch, s, where the raw times were left out.
    """

    workload: str
    task: Task
    batch_size: PositiveInt
    minibatch_s: PositiveFloat | None
    cpu_cores: PositiveInt | None = None
    cpu_mhz: PositiveFloat | None = None
    gpu_mhz: PositiveFloat | None = None
    mem_mhz: PositiveFloat | None = None
    power_limit_w: PositiveFloat | None = None
    power_mode: str | None = None
    device: str | None = None
    power_w: PositiveFloat | None = None
    power_peak_w: PositiveFloat | None = None
    energy_j: NonNegativeFloat | None = None
    minibatch_p95_s: NonNegativeFloat | None = None
    minibatch_ci95_low_s: NonNegativeFloat | None = None
    minibatch_ci95_high_s: NonNegativeFloat | None = None
    minibatches: NonNegativeInt | None = None
    warmups: NonNegativeInt | None = None
    power_samples: NonNegativeInt | None = None
    power_source: str | None = None
    temp_max_c: FiniteFloat | None = None
    throttled: bool | None = None
    status: Status = "ok"
    reason: str | None = None
    duration_s: NonNegativeFloat | None = None
    started: str | None = None
    times_s: tuple[float, ...] | None = None
    power_trace: tuple[PowerSample, ...] | None = None
    power_from_s: FiniteFloat | None = None
    temp_start_c: FiniteFloat | None = None
    round: NonNegativeInt | None = None
    others_cpu_share: NonNegativeFloat | None = None
    look_s: tuple[float, ...] | None = None
    look_temp_c: tuple[float, ...] | None = None
    look_throttle_events: tuple[int, ...] | None = None
    look_clocks: tuple[str, ...] | None = None
    look_clocks_mhz: tuple[float, ...] | None = None
    idle_gap_s: tuple[float, ...] | None = None
    idle_minibatch_s: tuple[float, ...] | None = None
    ttft_s: NonNegativeFloat | None = None
    ttft_p95_s: NonNegativeFloat | None = None
    ttft_p99_s: NonNegativeFloat | None = None
    token_s: NonNegativeFloat | None = None
    token_p95_s: NonNegativeFloat | None = None
    token_p99_s: NonNegativeFloat | None = None
    prompt_tokens: NonNegativeFloat | None = None
    output_tokens: NonNegativeFloat | None = None
    tokens_per_s: NonNegativeFloat | None = None
    tokens_counted: str | None = None
    own_value: FiniteFloat | None = None
    own_unit: str | None = None
    own_ttft_s: NonNegativeFloat | None = None
    own_token_s: NonNegativeFloat | None = None
    bunched_share: NonNegativeFloat | None = None
    memory_peak_bytes: NonNegativeInt | None = None
    memory_device_bytes: NonNegativeInt | None = None
    memory_available_min_bytes: NonNegativeInt | None = None
    swap_in_bytes: NonNegativeInt | None = None
    build_s: NonNegativeFloat | None = None
    engine_bytes: NonNegativeInt | None = None
    board: str | None = None
    cpu_throttled_share: NonNegativeFloat | None = None
    minibatch_mean_s: NonNegativeFloat | None = None

    @property
    def is_mean(self) -> bool:
        """Whether ``minibatch_s`` is a mean: a CPU quota stopped the workload often, which a median would not show."""
        return (self.cpu_throttled_share or 0.0) >= THROTTLED_SHARE

    @classmethod
    def at(cls, point: Point, minibatch_s: float | None, **figures: Any) -> ProfileRow:
        """Return the row of a point: its median minibatch time, s, and other columns by name."""
        return cls(point.workload, point.task, point.batch_size, minibatch_s, **point.mode.settings(), **figures)

    @property
    def mode(self) -> Mode:
        """The power mode of this row."""
        return Mode(self.cpu_cores, self.cpu_mhz, self.gpu_mhz, self.mem_mhz, self.power_limit_w, self.power_mode)

    @property
    def point(self) -> Point:
        """The measured point, without figures."""
        return Point(self.workload, self.task, self.batch_size, self.mode)


@dataclass(frozen=True, slots=True)
class Profile(Table):
    """A profile table and its header."""

    header: Header
    rows: tuple[ProfileRow, ...]

    ROW = ProfileRow
    LENIENT = True
    UPGRADES = (lambda raw: raw,)  # version 1 lacks columns, which take their defaults

    @classmethod
    def check(cls, table: Any, *, name: str) -> Any:
        """See ``checked_profile``."""
        return checked_profile(table, table.column_names, name=name)


def checked_profile(table: Any, found: list[str], *, name: str) -> Any:
    """Check a typed table, and return it.

    Args:
        table: The columns of ``ProfileRow``, typed.
        found: Every column name of the file.
        name: The file, for messages.

    Raises:
        InputError: there is no knob, or a value is not a possible measurement; the row is named.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not any(knob in found for knob in SETTINGS):
        message = f"{name} has no knob column: one of {', '.join(SETTINGS)} is needed"
        raise InputError(message, "add the knob that was varied")
    measured = pa.repeat(pa.scalar(True), table.num_rows)
    if "status" in table.column_names:
        measured = pc.equal(table.column("status").combine_chunks(), "ok")
    row = first_true(pc.and_(measured, pc.is_null(table.column("minibatch_s").combine_chunks())))
    if row is None:
        return table
    hint = "give the seconds of one minibatch in every row, or mark a row that failed with the status failed"
    if "epoch_s" in found:
        hint = "epoch_s is the time of an epoch: divide it by the minibatches of an epoch and fill minibatch_s"
    raise InputError(f"{name}, row {row + 1}: minibatch_s is empty though the row is not marked as failed", hint)

"""The numbers behind a twin: knob tables, presets and the constants of its equations, each with unit and source.

A board's file is ``constants/BOARD.yaml`` in this package, as ``tests/benchmarks/twin.py fit FILE`` writes it.
"""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources

from edgetune.artifacts.formats import checked_values
from edgetune.artifacts.mode import Mode
from edgetune.artifacts.yaml_document import load_yaml
from edgetune.choices import nearest
from edgetune.devices.capabilities import ModeSpace
from edgetune.devices.device import Contention
from edgetune.errors import InputError

_KNOBS = ("cpu_cores", "cpu_mhz", "gpu_mhz", "mem_mhz")


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Constants of the equations in ``physics``; the YAML gives the symbol and source of each value.

    Clocks are GHz, rates TFLOP/s and GB/s, so that a rate per GHz is a count per cycle in thousands.

    Args:
        gpu_max_ghz, mem_max_ghz, cpu_max_ghz, cores_max: The board at its highest mode; reference of all scalings.
        roof_issue_tflops_per_ghz: Issue limit of a TF32 matrix product per GHz of GPU clock (gF).
        roof_feed_tflops_per_ghz: Its operand feed per GHz of memory clock (kF).
        roof_norm: How sharply one limit gives way to the other (p).
        copy_issue_gbs_per_ghz: Load and store limit of the SMs per GHz of GPU clock (gB).
        dram_bytes_per_cycle: Width of the memory interface, bytes per memory clock cycle.
        dram_latency_ps_ghz_per_byte: Time per byte that shrinks with the GPU clock (lB).
        dram_efficiency_665, dram_efficiency_2133, dram_efficiency_3199: Share of the interface in use (h), each
            memory step having its own timing table; below 665 MHz the lowest is used, an extrapolation.
        conv_half_channels: Channels at which a convolution wastes half of its tensor-core tiles (hc).
        gemm_issue_share, gemm_feed_share: FP32 matrix products on CUDA cores, as shares of the TF32 limits (eg, em).
        rnn_issue_share: The same for recurrent layers, whose products are small, one per time step.
        gemm_tensor_share: Share of the tensor-core roof that a network's matrix products reach; no anchor.
        depthwise_tflops_per_ghz: Depthwise convolutions per GHz of GPU clock (ed).
        matrix_bandwidth_share: Bandwidth share of all convolutions and matrix products (mu): layout copies.
        conv_exposed_tflops_per_ghz: Rate of the part of convolutions that launches do not hide, per GHz of GPU clock.
        conv_fp16_speed, conv_int8_speed: Convolution rate relative to TF32 (x16); int8 has no anchor.
        roof_fp16, roof_int8, copy_fp16: Roofs relative to TF32 and FP32; int8 has no anchor.
        energy_fp16, energy_int8: Energy per operation relative to the wider type; no anchor.
        kernel_latency_us_ghz: GPU time per kernel besides its work, times the GPU clock (t0).
        op_launch_us, cudnn_launch_us, kernel_launch_us: CPU time at full clock per eager operator, in addition per
            cuDNN call, and per kernel after an operator's first (lop, lcv, lk).
        launch_memory_share: Share of the launch time that scales with the memory clock (lam).
        overlap_norm: How sharply the slowest of GPU, launches and data loading hides the others (q).
        decode_core_ghz_s: Core time times clock to decode one image (dec).
        loader_workers: Data loading processes.
        soc_w, gpu_static_w, mem_static_w, cpu_static_w: Static power at full clocks (Psoc, Pg, Pm, Pc), the last of
            all cores online.
        mem_static_exponent: How fast that of memory falls with its clock.
        host_busy_w: What a busy core draws besides, at full clock (X).
        gpu_active_w: SMs active, issuing or waiting for memory, at full clock (A).
        latency_activity: Share of this power while a kernel starts and drains (phi).
        tf32_pj, conv_pj, fp32_pj: Energy per FLOP of TF32 products, convolutions, FP32 and depthwise work at the
            highest voltage (n_t, e).
        byte_pj: Energy per byte moved to or from memory, caches and network on chip included (nd).
        gpu_volt_min, gpu_volt_knee_ghz, gpu_volt_exponent: Relative GPU voltage against clock (vmin, vf, vg).
        cpu_volt_min, cpu_volt_knee_ghz: Relative CPU voltage against clock.
    """

    gpu_max_ghz: float
    mem_max_ghz: float
    cpu_max_ghz: float
    cores_max: float
    roof_issue_tflops_per_ghz: float
    roof_feed_tflops_per_ghz: float
    roof_norm: float
    copy_issue_gbs_per_ghz: float
    dram_bytes_per_cycle: float
    dram_latency_ps_ghz_per_byte: float
    dram_efficiency_665: float
    dram_efficiency_2133: float
    dram_efficiency_3199: float
    conv_half_channels: float
    gemm_issue_share: float
    gemm_feed_share: float
    rnn_issue_share: float
    gemm_tensor_share: float
    depthwise_tflops_per_ghz: float
    matrix_bandwidth_share: float
    conv_exposed_tflops_per_ghz: float
    conv_fp16_speed: float
    conv_int8_speed: float
    roof_fp16: float
    roof_int8: float
    copy_fp16: float
    energy_fp16: float
    energy_int8: float
    kernel_latency_us_ghz: float
    op_launch_us: float
    cudnn_launch_us: float
    kernel_launch_us: float
    launch_memory_share: float
    overlap_norm: float
    decode_core_ghz_s: float
    loader_workers: float
    soc_w: float
    gpu_static_w: float
    mem_static_w: float
    mem_static_exponent: float
    cpu_static_w: float
    host_busy_w: float
    gpu_active_w: float
    latency_activity: float
    tf32_pj: float
    conv_pj: float
    fp32_pj: float
    byte_pj: float
    gpu_volt_min: float
    gpu_volt_knee_ghz: float
    gpu_volt_exponent: float
    cpu_volt_min: float
    cpu_volt_knee_ghz: float


@dataclass(frozen=True, slots=True)
class Constant:
    """One constant in the file: its value, unit, symbol in the study, and source."""

    value: float
    unit: str
    source: str
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Mean absolute deviations from one network's figures of a twin calibrated without them, %."""

    network: str
    time_pct: float
    power_pct: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class CalibrationInfo:
    """Origin of the constants: time and data of the calibration.

    ``claim_slowdown_points`` is the largest error of a published slowdown at lower clocks, of those fitted.
    """

    date: str
    anchors_sha256: str
    tables: str
    leave_one_out: tuple[LeftOut, ...] = ()
    claim_time_pct: float | None = None
    claim_power_pct: float | None = None
    claim_slowdown_points: float | None = None
    claim_note: str = ""


@dataclass(frozen=True, slots=True)
class Sensing:
    """The board's power sensor, and the noise of its measurements when noise is asked for.

    Args:
        refresh_s: Interval between readings, s.
        settle_s: Time from a change of load until readings represent it, s.
        time_constant_s: First-order time constant of power after a change of load, s.
        lag_s: Delay of the readings, s.
        time_repeat, power_repeat: Log-normal sigma from one measurement of a point to the next.
        time_jitter, power_jitter: Log-normal sigma between minibatches and between readings of one measurement.
        source: Origin of the values.
    """

    refresh_s: float
    settle_s: float
    time_constant_s: float
    lag_s: float
    time_repeat: float
    power_repeat: float
    time_jitter: float
    power_jitter: float
    source: str


@dataclass(frozen=True, slots=True)
class Knobs:
    """Permitted values of each knob, ascending, and the source of the table."""

    cpu_cores: tuple[int, ...]
    cpu_mhz: tuple[float, ...]
    gpu_mhz: tuple[float, ...]
    mem_mhz: tuple[float, ...]
    source: str


@dataclass(frozen=True, slots=True)
class TwinFile:
    """One board's twin as data.

    Args:
        board: Name after ``twin:``.
        description: One line for people.
        catalogue: The board's name in the catalogue.
        runtime: Runtime that launches the operators; launch costs are valid only for it.
        tf32_matmul: Whether matrix products outside convolutions run on tensor cores too; off in PyTorch since 1.12.
        knobs, presets, presets_source: The power modes.
        sensing: The power sensor.
        fit: Origin of the constants.
        constants: Every constant of ``Constants`` by name.
        contention: See ``Device``; in files of older calibrations there is none.
    """

    board: str
    description: str
    catalogue: str
    runtime: str
    tf32_matmul: bool
    knobs: Knobs
    presets: dict[str, tuple[int, float, float, float]]
    presets_source: str
    sensing: Sensing
    fit: CalibrationInfo
    constants: dict[str, Constant]
    extrapolations: tuple[str, ...] = field(default_factory=tuple)
    contention: dict[str, Contention] = field(default_factory=dict)

    @property
    def values(self) -> Constants:
        """The constants as numbers, for the equations."""
        return Constants(**{name: constant.value for name, constant in self.constants.items()})

    @property
    def space(self) -> ModeSpace:
        """The power modes on offer."""
        return ModeSpace(
            knobs={name: tuple(float(value) for value in getattr(self.knobs, name)) for name in _KNOBS},
            presets={name: Mode(*values) for name, values in self.presets.items()},
        )


def list_boards() -> tuple[str, ...]:
    """Return the boards that have a twin in this package."""
    folder = resources.files(__package__) / "constants"
    return tuple(sorted(item.name.removesuffix(".yaml") for item in folder.iterdir() if item.name.endswith(".yaml")))


@lru_cache(maxsize=4)
def load_board(board: str) -> tuple[TwinFile, str]:
    """Return a board's twin from this package and the SHA-256 of its file.

    Raises:
        InputError: no twin has this name.
    """
    boards = list_boards()
    if board not in boards:
        listed = f"known: {', '.join(f'twin:{each}' for each in boards)}"
        raise InputError(f"there is no twin of {board!r}", nearest(board, boards, listed=listed, prefix="twin:"))
    data = (resources.files(__package__) / "constants" / f"{board}.yaml").read_bytes()
    return parse(data, f"{board}.yaml"), hashlib.sha256(data).hexdigest()


def parse(data: bytes, name: str) -> TwinFile:
    """Return the twin in ``data``, validated; an error of a calibration shows in the tests, not to a user."""
    from pydantic import TypeAdapter

    return TypeAdapter(TwinFile).validate_python(checked_values(load_yaml(data.decode(), name=name), name=name))

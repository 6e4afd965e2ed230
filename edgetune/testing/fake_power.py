"""Fake power sensors: INA3221 as hwmon and as iio, and Thor's INA238. The values follow a formula, not a board.

An AGX board draws ``4 W + 1.5 W per core and GHz + 20 W per GHz of GPU + 4 W per GHz of memory``, the smaller modules
0.4 times that; idle cores and an idle GPU count a tenth. Values are renewed every 430 ms (nvpower.sh: 2 x 140 us x
3 channels x 512 samples), or at ``update_interval`` where it was written, in steps of the chip's
converters: 8 mV, and 40 uV over the shunt. Source of files and steps: drivers/hwmon/ina3221.c of Linux; of the older
driver's: jetson_stats jtop/core/power.py.
"""

import errno
import json
import random
from collections.abc import Callable
from functools import partial

from edgetune.devices.capabilities import Clock
from edgetune.devices.jetson.catalog import PowerChip
from edgetune.testing import fake_cpu, fake_emc, fake_gpu
from edgetune.testing.fake_description import FakeBoard
from edgetune.testing.fake_files import Answer, KernelFiles, refuse

REFRESH_NS = 430_000_000
_BUS_STEP_MV = 8
_SHUNT_STEP_UV = 40


def place(board: FakeBoard, chip: PowerChip) -> str:
    """Return the folder of a chip's I2C device."""
    bus = int(chip.address.split("-")[0])
    controller = {0: "3160000", 1: "c240000", 2: "c250000", 6: "7000c400", 7: "c250000"}[bus]
    above = "platform/bus@0/" if board.kernel in ("5.15", "6.8") else "platform/" if board.kernel == "5.10" else ""
    return f"sys/devices/{above}{controller}.i2c/i2c-{bus}/{chip.address}"


def hwmon_numbers(files: KernelFiles, board: FakeBoard, names: list[str]) -> dict[str, int]:
    """Return the number of each hwmon device; shuffled at every boot if the description requests it."""
    order = list(range(len(names)))
    if board.shuffle_hwmon:
        random.Random(f"{board.seed}/{files.hidden('boots', '0')}").shuffle(order)
    return dict(zip(names, order, strict=True))


def hwmon_names(board: FakeBoard) -> list[str]:
    """Return the hwmon devices: fan and over-current counters, and each power chip by its address."""
    others = [] if board.kernel == "4.9" else ["pwmfan", "pwm_tach", "soctherm_oc"]
    chips = [] if board.kernel == "4.9" else [chip.address for chip in board.catalogue.rails.chips]
    return others + chips


def input_folder(files: KernelFiles, board: FakeBoard) -> str:
    """Return the hwmon folder of the first chip."""
    chip = board.catalogue.rails.chips[0]
    return f"{place(board, chip)}/hwmon/hwmon{hwmon_numbers(files, board, hwmon_names(board))[chip.address]}"


def _shunt_uohm(board: FakeBoard) -> int:
    """Return the shunt resistance, uohm: 2 mOhm on the AGX boards, else 5 mOhm."""
    return 2000 if "agx" in board.board and board.soc != "tegra194" else 5000


def _supply_mv(name: str | None) -> int:
    return 20_000 if name in ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN", "VDD_GPU", "VDD_CPU_SOC_MSS") else 5_000


def boot(files: KernelFiles, board: FakeBoard) -> None:
    """Create the files of all chips."""
    numbers = hwmon_numbers(files, board, hwmon_names(board))
    for index, chip in enumerate(board.catalogue.rails.chips):
        device = place(board, chip)
        driver = "ina3221x" if board.kernel == "4.9" else chip.chip
        files.link(f"sys/bus/i2c/drivers/{driver}/{chip.address}", device)
        if board.kernel == "4.9":
            _put_iio(files, chip, f"{device}/iio:device{index}")
            files.link(f"{device}/iio_device", f"{device}/iio:device{index}")
            continue
        number = numbers[chip.address]
        folder = f"{device}/hwmon/hwmon{number}"
        files.link(f"sys/class/hwmon/hwmon{number}", folder)
        files.put(f"{folder}/name", chip.chip, 0o444)
        files.link(f"{folder}/device", device)
        if chip.chip == "ina3221":
            _put_ina3221(files, board, chip, folder)
        else:
            files.put(f"{folder}/power1_input", 0, 0o444)


def _put_ina3221(files: KernelFiles, board: FakeBoard, chip: PowerChip, folder: str) -> None:
    usual = "nc" if board.kernel == "5.10" else "missing"
    for rail in chip.rails:
        label = rail.name or ("NC" if (board.labels or usual) == "nc" else None)
        if label and board.labels != "none":
            files.put(f"{folder}/in{rail.channel}_label", label, 0o444)
        files.put(f"{folder}/in{rail.channel}_input", 0, 0o444)
        files.put(f"{folder}/in{rail.channel}_enable", 1)
        files.put(f"{folder}/shunt{rail.channel}_resistor", _shunt_uohm(board))
        files.put(f"{folder}/curr{rail.channel}_input", 0, 0o444)
        files.put(f"{folder}/curr{rail.channel}_max", 32_760)
        files.put(f"{folder}/curr{rail.channel}_crit", 32_760)
    files.put(f"{folder}/update_interval", 430)


def _put_iio(files: KernelFiles, chip: PowerChip, folder: str) -> None:
    files.put(f"{folder}/name", "ina3221x", 0o444)
    for rail in chip.rails:
        index = rail.channel - 1
        files.put(f"{folder}/rail_name_{index}", rail.name or "NC", 0o444)
        for quantity in ("voltage", "current"):
            files.put(f"{folder}/in_{quantity}{index}_input", 0, 0o444)


def answers(files: KernelFiles, board: FakeBoard, clock: Clock) -> dict[str, Answer]:
    """Return the ``Answer`` of each file, by path."""
    numbers = hwmon_numbers(files, board, hwmon_names(board))
    found: dict[str, Answer] = {}
    for index, chip in enumerate(board.catalogue.rails.chips):
        if board.kernel == "4.9":
            folder = f"{place(board, chip)}/iio:device{index}"
            found |= _iio(chip, folder, _sampler(files, board, chip, clock, folder))
            continue
        folder = f"{place(board, chip)}/hwmon/hwmon{numbers[chip.address]}"
        sample = _sampler(files, board, chip, clock, folder)
        found |= _ina238(folder, sample) if chip.chip == "ina238" else _ina3221(files, board, chip, folder, sample)
    return found


Sample = Callable[[], dict[int, tuple[int, int]]]
"""Returns bus voltage, mV, and shunt voltage, uV, by channel."""


def _iio(chip: PowerChip, folder: str, sample: Sample) -> dict[str, Answer]:
    def read(channel: int, quantity: str) -> str:
        millivolts, shunt_uv = sample()[channel]
        return str(millivolts if quantity == "voltage" else shunt_uv * 1000 // 5000)

    return {
        f"{folder}/in_{quantity}{rail.channel - 1}_input": Answer(partial(read, rail.channel, quantity))
        for rail in chip.rails
        for quantity in ("voltage", "current")
    }


def _ina238(folder: str, sample: Sample) -> dict[str, Answer]:
    def microwatts() -> str:
        millivolts, shunt_uv = sample()[1]
        return str(millivolts * (shunt_uv * 1000 // 2000))

    return {f"{folder}/power1_input": Answer(microwatts)}


def _ina3221(files: KernelFiles, board: FakeBoard, chip: PowerChip, folder: str, sample: Sample) -> dict[str, Answer]:
    shunt = _shunt_uohm(board)

    def value(channel: int, kind: int, scale: Callable[[int], int]) -> Callable[[], str]:
        def read() -> str:
            if files.raw(f"{folder}/in{channel}_enable") == "0":
                refuse(errno.ENODATA, folder)
            return str(scale(sample()[channel][kind]))

        return read

    found = {}
    for channel in (rail.channel for rail in chip.rails):
        found[f"{folder}/in{channel}_input"] = Answer(value(channel, 0, lambda mv: mv))
        found[f"{folder}/curr{channel}_input"] = Answer(value(channel, 1, lambda uv: uv * 1000 // shunt))
    return found


def _refresh_ns(files: KernelFiles, folder: str) -> int:
    try:
        return int(files.raw(f"{folder}/update_interval")) * 1_000_000
    except FileNotFoundError:  # the older driver has no such file, and that of an INA238 is not faked
        return REFRESH_NS


def _sampler(files: KernelFiles, board: FakeBoard, chip: PowerChip, clock: Clock, folder: str) -> Sample:
    """Return the sampler of a chip: one sample per interval, equal in every process."""
    name = f"power.{chip.address}"

    def sample() -> dict[int, tuple[int, int]]:
        interval = clock.now_ns() // _refresh_ns(files, folder)
        kept = json.loads(files.hidden(name, "[-1, {}]"))
        if kept[0] != interval:
            noise = random.Random(f"{board.seed}/{chip.address}/{interval}")
            kept = [interval, {rail.channel: _convert(files, board, clock, rail.name, noise) for rail in chip.rails}]
            files.hide(name, json.dumps(kept))
        return {int(channel): (volts, shunt) for channel, (volts, shunt) in kept[1].items()}

    return sample


def _convert(
    files: KernelFiles, board: FakeBoard, clock: Clock, name: str | None, noise: random.Random
) -> tuple[int, int]:
    """Return bus voltage, mV, and shunt voltage, uV, quantised as by the converters."""
    if name is None:
        return 0, 0
    watts = rail_w(files, board, clock, name) * noise.gauss(1, 0.01)
    volts_mv = round(_supply_mv(name) * noise.gauss(1, 0.001) / _BUS_STEP_MV) * _BUS_STEP_MV
    amps = watts * 1000 / volts_mv
    return volts_mv, round(amps * _shunt_uohm(board) / _SHUNT_STEP_UV) * _SHUNT_STEP_UV


def rail_w(files: KernelFiles, board: FakeBoard, clock: Clock, name: str) -> float:
    """Return the power of a rail, W: its parts of the formula above; an input rail carries them all."""
    parts = _parts_w(files, board, clock)
    if name == "VDD_GPU" and fake_gpu.asleep(files, board):
        return 0.0  # observed on Thor
    if name in ("VDD_IN", "VIN", "POM_5V_IN"):
        return sum(parts.values())
    words = {"GPU": "gpu", "CPU": "cpu", "DDR": "memory", "VDDQ": "memory", "SYS5V": "memory", "5V0": "memory"}
    carried = {part for word, part in words.items() if word in name}
    shares = {"gpu": 1.0, "cpu": 1.0, "memory": 0.5}
    rails = [rail for chip in board.catalogue.rails.chips for rail in chip.rails if rail.name]
    return parts["base"] / len(rails) + sum(parts[part] * shares[part] for part in carried)


def _parts_w(files: KernelFiles, board: FakeBoard, clock: Clock) -> dict[str, float]:
    working = [policy for policy in fake_cpu.policies(files, board) if policy.cores_on]
    scale = 1.0 if "agx" in board.board else 0.4
    cpu = sum(1.5e-6 * policy.clock_khz() * len(policy.cores_on) for policy in working)
    gpu = 20e-6 * fake_gpu.current_khz(files, fake_gpu.nodes(board)[0])
    memory = 4e-9 * fake_emc.current_hz(files, board, clock)
    load = {name: 0.1 + 0.9 * float(files.hidden(f"busy.{name}", "0")) for name in ("cpu", "gpu")}
    parts = {"base": 4.0, "cpu": cpu * load["cpu"], "gpu": gpu * load["gpu"], "memory": memory}
    return {name: watts * scale for name, watts in parts.items()}

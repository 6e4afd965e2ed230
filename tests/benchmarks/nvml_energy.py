"""How NVIDIA's energy counter and edgetune's readings agree on a real GPU; nothing on the card is changed.

    python tests/benchmarks/nvml_energy.py [--gpu 0] [--seconds 10] [--rounds 3] [--load]

Each round lasts some seconds: the counter is read at both ends, by ``pynvml`` and nothing of edgetune, while edgetune
records readings of its power sensor and a thread polls NVML's own power figure every 10 ms. Printed is the ratio of the
counter's energy to that of edgetune's readings, and to the polled power over time: near 1.00 when all is well, though
the polled figure is a mean over a second from Ampere on and lags behind a load that changes. With ``--load`` PyTorch
multiplies matrices every other half second. Nothing is asserted. Where there is no GPU it says so and ends with 4.

On one H100 (driver 580, two rounds of 4 s): counter/readings 0.977 idle and 1.020 with ``--load``, counter/polled 0.991
and 1.035.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable

from edgetune.devices.capabilities import Absent, PowerReading
from edgetune.devices.nvml.device import open_nvidia
from edgetune.devices.nvml.gpu import Gpu, load_nvml
from edgetune.devices.telemetry import polled
from edgetune.errors import EdgetuneError

POLL_S = 0.01


def load_for(seconds: float) -> None:
    """Multiply matrices on GPU 0 of this process, half of the time."""
    import torch

    matrix = torch.rand(4096, 4096, device="cuda")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        busy_until = time.monotonic() + 0.5
        while time.monotonic() < busy_until:
            matrix @ matrix
            torch.cuda.synchronize()
        time.sleep(0.5)


def joules(readings: list[PowerReading], first_s: float) -> float:
    """Return the energy that readings stand for, each over the time since the one before, the first over its own."""
    total, before_ns = 0.0, readings[0].time_ns - round(first_s * 1e9)
    for reading in readings:
        total += reading.power_w * (reading.time_ns - before_ns) / 1e9
        before_ns = reading.time_ns
    return total


def one_round(gpu: Gpu, index: int, seconds: float, load: Callable[[float], None]) -> None:
    """Measure for some seconds and print what came of it."""
    device = open_nvidia(f"nvidia:{index}")
    if isinstance(device.power, Absent):
        print(f"no power: {device.power.reason}")
        return

    def counter_j() -> float:
        return float(gpu.ask("nvmlDeviceGetTotalEnergyConsumption")) / 1e3

    def at_renewal() -> tuple[float, float]:
        """Return the counter, J, and when it was renewed, s: between renewals it is up to one interval old."""
        old_j = counter_j()
        while (new_j := counter_j()) == old_j:
            time.sleep(0.001)
        return new_j, time.monotonic()

    def power() -> PowerReading:
        power_w = float(gpu.ask("nvmlDeviceGetPowerUsage")) / 1e3
        return PowerReading(time.monotonic_ns(), power_w)

    worker = threading.Thread(target=load, args=(seconds,), daemon=True)
    before_j, start_s = at_renewal()
    with device.power.record() as ours, polled(power, POLL_S) as theirs:
        worker.start()
        time.sleep(seconds)
        after_j, end_s = at_renewal()
    spent_j, took_s = after_j - before_j, end_s - start_s
    worker.join()
    shown = list(ours.readings)
    polls = list(theirs.readings)
    if len(shown) < 2 or len(polls) < 2:
        print(f"too few readings: {len(shown)} and {len(polls)}: {ours.failure or theirs.failure or 'no reason given'}")
        return
    covered_s = (shown[-1].time_ns - shown[0].time_ns) / 1e9 + device.power.refresh_s
    ours_w = joules(shown, device.power.refresh_s) / covered_s
    theirs_w = joules(polls, POLL_S) / ((polls[-1].time_ns - polls[0].time_ns) / 1e9 + POLL_S)
    counter_w = spent_j / took_s
    print(
        f"  counter {counter_w:7.2f} W   polled {theirs_w:7.2f} W"
        f"   {device.power.source} {ours_w:7.2f} W every {device.power.refresh_s * 1e3:.0f} ms"
        f"   counter/readings {counter_w / ours_w:.4f}   counter/polled {counter_w / theirs_w:.4f}"
    )


def main() -> int:
    """Run the comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", action="store_true", help="keep the first GPU of CUDA busy every other half second")
    arguments = parser.parse_args()
    try:
        device = open_nvidia(f"nvidia:{arguments.gpu}")
        print(f"{device.name}: {device.description}, driver {device.conditions['driver']}")
        gpu = Gpu(load_nvml(), arguments.gpu)
        for _ in range(arguments.rounds):
            one_round(gpu, arguments.gpu, arguments.seconds, load_for if arguments.load else time.sleep)
    except EdgetuneError as error:
        print(f"nothing measured: {error.message}\nhint: {error.hint}", file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())

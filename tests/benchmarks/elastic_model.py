"""Print what networks take on the model of a GPU, beside what they were measured to take on the real one.

    python tests/benchmarks/elastic_model.py examples/results/kernels-h100.txt [--gpu h100]

Reads what ``tests/benchmarks/elastic_gpu.py`` printed: times of original networks on the GPU alone, of each number of
multiprocessors the first. The model of a part has as large a share of the peak, and all of the bandwidth, as a green
context has.
"""

import argparse
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.gpu import Gpu, find_gpu
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.mdtb.networks import network
from edgetune.stages.elastic.policies.multistream import Solo
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.work import GpuTask
from edgetune.stats import median

_GPU = re.compile(r"^.*, (?P<sms>\d+) multiprocessors, CUDA")
_TIME = re.compile(r"^overhead +(?P<name>\w+) +original +(?P<ms>[\d.]+) ms")
_DURATION_S = 0.02


def measured_ms(text: str) -> dict[tuple[int, str], float]:
    """Return the first time of each network by multiprocessors, ms."""
    found: dict[tuple[int, str], float] = {}
    sms = 0
    for line in text.splitlines():
        if gpu := _GPU.match(line):
            sms = int(gpu["sms"])
        elif time := _TIME.match(line):
            found.setdefault((sms, time["name"]), float(time["ms"]))
    return found


def modelled_ms(gpu: Gpu, name: str) -> float:
    """Return the median of what a network takes alone on the model, ms."""
    task = GpuTask(name, network(name), 1, arrivals="closed")
    loop = ElasticLoop(Solo(), SimulatedGpu(EventClock(), gpu, [task]), [task], gpu=gpu, duration_s=_DURATION_S)
    loop.run()
    return median([(each.ended_ns - each.arrived_ns) / 1e6 for each in loop.requests if each.outcome == "ok"])


def lines(text: str, whole: Gpu) -> Iterator[str]:
    """Yield a line for each network and number of multiprocessors."""
    for (sms, name), real_ms in measured_ms(text).items():
        share = sms / whole.sm_count
        gpu = replace(whole, sm_count=sms, flop_per_s=share * whole.flop_per_s)
        model_ms = modelled_ms(gpu, name)
        yield f"{sms:>4}  {name:<12} {real_ms:>9.3f} {model_ms:>9.3f} {model_ms / real_ms:>6.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--gpu", default="h100")
    asked = parser.parse_args()
    print("multiprocessors, network, measured ms, model ms, ratio")
    for line in lines(asked.file.read_text(), find_gpu(asked.gpu)):
        print(line)


if __name__ == "__main__":
    main()

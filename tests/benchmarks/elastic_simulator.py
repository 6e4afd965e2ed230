"""Print how fast GPUs are simulated, blocks a second: python tests/benchmarks/elastic_simulator.py.

Three kinds of load on 16 and 132 multiprocessors: ``equal``, kernels whose blocks all begin and end together;
``mixed``, four streams of kernels of unlike sizes, so that hardly two blocks end together; ``pieces``, a critical task
beside an elastic one that is launched three waves at a time. The loop, its policy and its records are in the time,
which is that of the processor.
"""

import argparse
import time

from edgetune.serving.clock import EventClock
from edgetune.stages.elastic.gpu import Resources, find_gpu
from edgetune.stages.elastic.loop import ElasticLoop
from edgetune.stages.elastic.policies.multistream import Solo
from edgetune.stages.elastic.simulated import SimulatedGpu
from edgetune.stages.elastic.view import LaunchChain, LaunchPiece
from edgetune.stages.elastic.work import Call, GpuTask, KernelSequence, Logical


class _Pieces:
    """Chains for critical tasks; three waves of one block per multiprocessor for others, one in flight."""

    name = "pieces"

    def decide(self, view):
        sms = view.gpu.sm_count
        found = [LaunchChain(each.task.name) for each in view.tasks if each.task.critical for _ in each.arrived_ns]
        for each in view.tasks:
            if not each.task.critical and not each.in_flight and (each.arrived_ns or each.request is not None):
                found.append(LaunchPiece(each.task.name, min(3 * sms, each.left), 1, sms))
        return found


def _call(blocks: int, threads: int, block_us: float) -> Call:
    return Call("k", Logical((blocks, 1, 1), (threads, 1, 1)), block_s=block_us / 1e6, resources={1: Resources(32)})


def _tasks(load: str, sms: int) -> list[GpuTask]:
    if load == "equal":
        return [GpuTask("a", KernelSequence("n", [_call(64 * sms, 256, 40)] * 4))]
    if load == "mixed":
        kernels = [[_call(int((5 + 3 * n) * sms * 1.3), 64 << n, 17.3 + 6.1 * n)] * 4 for n in range(4)]
        return [GpuTask(f"t{n}", KernelSequence(f"n{n}", calls)) for n, calls in enumerate(kernels)]
    critical = GpuTask("critical", KernelSequence("n", [_call(3 * sms + 5, 256, 35)] * 10), 1, "poisson:300/s")
    return [critical, GpuTask("normal", KernelSequence("m", [_call(40 * sms, 256, 28)] * 5))]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", type=float, default=1.0, help="Simulated seconds of each.")
    duration_s = parser.parse_args(argv).duration
    for gpu in map(find_gpu, ("orin-agx", "h100")):
        for load in ("equal", "mixed", "pieces"):
            begun_s = time.process_time()
            policy = _Pieces() if load == "pieces" else Solo()
            tasks = _tasks(load, gpu.sm_count)
            simulated = SimulatedGpu(EventClock(), gpu, tasks)
            done = ElasticLoop(policy, simulated, tasks, gpu=gpu, duration_s=duration_s)
            done.run()
            took_s = time.process_time() - begun_s
            print(
                f"{gpu.name:9} {load:7} {simulated.blocks:9} blocks, {len(done.launches):6} launches, {took_s:6.2f} s: "
                f"{simulated.blocks / took_s:9.0f} blocks/s, {len(done.launches) / took_s:7.0f} launches/s"
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

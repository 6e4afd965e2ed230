"""The simulated GPU beside a slow one that keeps every block for itself and works everything out at every step."""

import math
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_scenes import FREE, GPU, US, Scene, call

from edgetune.stages.elastic.model import demand_of
from edgetune.stages.elastic.view import Launch

LATENCY_NS = 10 * US


@dataclass
class Block:
    launch: int
    sm: int
    left_ns: float


class Slow:
    """Launches on three streams, all of them made at time 0."""

    def __init__(self, launches, priorities):
        self.launches, self.priorities = launches, priorities
        self.demands = [
            demand_of(each.what, GPU, FREE, per_thread=each.per_thread, original=each.blocks is None)
            for each in launches
        ]
        self.unplaced = [self.logical_blocks(launch) for launch in launches]
        self.resident: list[Block] = []
        self.ended: dict[int, int] = {}
        self.ready_ns: dict[int, int] = {}

    @staticmethod
    def logical_blocks(launch):
        """What each physical block that has anything to do takes, in order."""
        blocks = min(launch.physical_blocks, launch.count)
        return [len(range(number, launch.count, blocks)) for number in range(blocks)]

    def room(self, sm, demand):
        on = [self.demands[block.launch] for block in self.resident if block.sm == sm]
        fits = 0
        while (
            sum(each.threads for each in on) + (fits + 1) * demand.threads <= GPU.threads_per_sm
            and sum(each.registers for each in on) + (fits + 1) * demand.registers <= GPU.registers_per_sm
            and sum(each.shared_bytes for each in on) + (fits + 1) * demand.shared_bytes <= GPU.shared_bytes_per_sm
            and len(on) + fits + 1 <= GPU.blocks_per_sm
        ):
            fits += 1
        return fits

    def reach(self, now_ns):
        """Have those that came to the head of their stream stand in line: after who stood there before."""
        heads = {}
        for number, launch in enumerate(self.launches):
            if number not in self.ended and launch.task not in heads:
                heads[launch.task] = number
                self.ready_ns.setdefault(number, now_ns)

    def place(self, now_ns):
        ready = [number for number in self.ready_ns if self.unplaced[number]]
        for number in sorted(
            ready, key=lambda each: (-self.priorities[self.launches[each].task], self.ready_ns[each], each)
        ):
            demand = self.demands[number]
            while self.unplaced[number]:
                rooms = [self.room(sm, demand) for sm in range(GPU.sm_count)]
                if not any(rooms):
                    return
                logical = self.unplaced[number].pop(0)
                self.resident.append(Block(number, rooms.index(max(rooms)), logical * demand.logical_ns))

    def stretch(self, block):
        used = sum(self.demands[each.launch].compute for each in self.resident if each.sm == block.sm)
        return max(1.0, used)

    def run(self):
        now_ns = LATENCY_NS
        self.reach(now_ns)
        self.place(now_ns)
        while self.resident:
            passed_ns = max(math.ceil(min(each.left_ns * self.stretch(each) for each in self.resident) - 1e-3), 0)
            lefts = [each.left_ns - passed_ns / self.stretch(each) for each in self.resident]
            for block, left_ns in zip(self.resident, lefts, strict=True):
                block.left_ns = left_ns
            now_ns += passed_ns
            self.resident = [each for each in self.resident if each.left_ns > 1e-3]
            for number in range(len(self.launches)):
                here = any(each.launch == number for each in self.resident)
                if number not in self.ended and not self.unplaced[number] and not here:
                    self.ended[number] = now_ns
            self.place(now_ns)
            self.reach(now_ns)
            self.place(now_ns)
        return self.ended


LAUNCHES = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(1, 25), st.sampled_from([32, 128, 160, 512, 1024]), st.integers(1, 50),
        st.sampled_from([16, 64]), st.sampled_from([0, 9000]), st.sampled_from([None, 1, 3, 7]),
    ),
    min_size=1, max_size=7,
)  # fmt: skip


@given(LAUNCHES, st.permutations([0, 0, 1]))
@settings(max_examples=60, deadline=None)
def test_launches_end_when_they_do_block_by_block(launches, priorities):
    scene, made = Scene(*priorities), []
    for number, (stream, blocks, threads, block_us, registers, shared, physical) in enumerate(launches):
        what = call(blocks, threads, block_us, registers=registers, shared=shared)
        scene.launch(what, stream, blocks=physical)
        made.append(Launch(number, f"t{stream}", 0, 0, what, 0, blocks, blocks=physical))
    expected = Slow(made, {f"t{stream}": priority for stream, priority in enumerate(priorities)}).run()
    found = scene.run()
    assert {number: found[number, "ended"] for number in expected} == {
        number: ended_ns / US for number, ended_ns in expected.items()
    }

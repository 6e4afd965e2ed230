"""What launching costs: known in closed form on the fake, kept in a file with where it was measured."""

from dataclasses import replace
from pathlib import Path

import pytest
from cuda_scene import US, Machine

from edgetune.errors import InputError
from edgetune.stages.elastic.compiler import ptx_of
from edgetune.stages.elastic.cuda.calibrate import (
    EMPTY_KERNEL,
    SHARDS,
    SOURCE,
    TURNS,
    TURNS_KERNEL,
    LaunchCosts,
    calibrate,
    costs_of,
    costs_path,
    read_costs,
    write_costs,
)
from fakes.cuda_driver import fake_image
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel

CALLS_US = {"cuLaunchKernel": 7, "cuEventRecord": 1, "cuEventQuery": 2}
START_US = 30
TURN_NS = 80


@pytest.fixture(scope="module")
def costs() -> LaunchCosts:
    machine = Machine(
        [FakeCudaGpu(start_ns=START_US * US)],
        kernels={
            EMPTY_KERNEL: FakeCudaKernel(duration_ns=3 * US),
            TURNS_KERNEL: FakeCudaKernel(
                (4, 4), lambda _, given: 3 * US + TURN_NS * int.from_bytes(given[0], "little")
            ),
        },
        more={"call_ns": {name: taken * US for name, taken in CALLS_US.items()}, "other_ns": 0},
    )
    with machine.context() as context:
        return calibrate(context, fake_image(EMPTY_KERNEL, TURNS_KERNEL))


def test_shards_cost_a_call_each_where_that_takes_longer_than_they_run(costs: LaunchCosts) -> None:
    """The last of n begins 7 n + 30 us after the first call, and is asked for every 2 us."""
    for count in SHARDS:
        assert costs.shards_s[count] == pytest.approx((7 * count + START_US + 3) / 1e6, abs=2.1e-6)
    assert costs.shard_s == pytest.approx(7e-6, rel=0.01)


def test_turns_of_a_persistent_block_cost_what_each_takes(costs: LaunchCosts) -> None:
    assert list(costs.turns_s) == list(TURNS)
    assert costs.turn_s == pytest.approx(TURN_NS / 1e9, rel=0.01)


def test_the_kernels_compile() -> None:
    text, _ = ptx_of(SOURCE, "sm_87", name="calibration")
    assert all(f".entry {each}(" in text for each in (EMPTY_KERNEL, TURNS_KERNEL))


def test_a_file_holds_all_of_it(costs: LaunchCosts, tmp_path: Path) -> None:
    path = tmp_path / "costs.yaml"
    write_costs(costs, path)
    assert read_costs(path) == costs
    text = path.read_text()
    for word in ("Fake CUDA GPU (not hardware)", costs.uuid, "cuda: '12.6'", costs.at):
        assert word in text


def test_costs_are_found_for_the_same_gpu_part_and_driver(costs: LaunchCosts, tmp_path: Path) -> None:
    with Machine().context() as context:
        facts = context.facts
    assert costs_of(facts, tmp_path) is None
    write_costs(costs, costs_path(facts, tmp_path))
    assert costs_of(facts, tmp_path) == costs
    assert costs_of(replace(facts, driver="13.0"), tmp_path) is None
    assert costs_of(replace(facts, gpu=replace(facts.gpu, sm_count=8)), tmp_path) is None
    assert costs_of(replace(facts, uuid="GPU-another"), tmp_path) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "", "does not hold launch costs"),
        (lambda text: "[1, 2]", "does not hold launch costs"),
        (lambda text: text.replace("launch_costs", "plan"), "does not hold launch costs"),
        (lambda text: text.replace("reaction_s:", "reaction:"), "unknown key 'reaction'"),
        (lambda text: text.replace("reaction_s: ", "reaction_s: fast # "), "reaction_s is 'fast'"),
        (lambda text: text.partition("turns_s:")[0] + "turns_s: {}", "incomplete"),
        (lambda text: text + "\n:", "not valid YAML|line"),
    ],
)
def test_a_damaged_file_is_refused(costs: LaunchCosts, tmp_path: Path, change, words: str) -> None:
    path = tmp_path / "costs.yaml"
    write_costs(costs, path)
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=words):
        read_costs(path)

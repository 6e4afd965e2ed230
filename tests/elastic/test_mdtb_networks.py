"""The six networks: as many weights as the papers' have, what a call costs in closed form, and bad sizes."""

import json
import math
import struct
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import mdtb_resources
import pytest
from kernel_corpus import ARCHES
from mdtb_resources import KERNELS

from edgetune.errors import InputError
from edgetune.stages.elastic.gpu import GpuTask, Pointer, Scalar, find_gpu
from edgetune.stages.elastic.mdtb.builder import pooled_side
from edgetune.stages.elastic.mdtb.networks import (
    ARCHITECTURE,
    NETWORKS,
    PUBLISHED,
    WORKLOADS,
    compiled_for,
    network,
    stored_resources,
    workload,
)

WEIGHTS = {
    # torchvision's counts of parameters, which its documentation states: alexnet, squeezenet1_0, and resnet18 with one
    # bias in place of a scale and a shift for each of its 4800 normalised channels.
    "alexnet": 61_100_840,
    "squeezenet": 1_248_424,
    "resnet": 11_689_512 - 4800,
    "cifarnet": (75 + 1) * 32 + (800 + 1) * 32 + (800 + 1) * 64 + (1024 + 1) * 64 + (64 + 1) * 10,
    "lstm": 4 * 512 * (512 + 512 + 1) + (512 + 1) * 10,
    "gru": 3 * 512 * (512 + 512 + 2) + (512 + 1) * 10,
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_as_many_weights_as_its_paper_says(name: str) -> None:
    weights = [buffer for buffer in network(name).buffers if buffer.role == "weights"]
    assert sum(math.prod(buffer.shape) for buffer in weights) == WEIGHTS[name]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_buffer_is_given_or_written_before_it_is_read(name: str) -> None:
    built = network(name)
    roles = {buffer.name: buffer.role for buffer in built.buffers}
    assert sorted(roles.values()).count("output") == 1
    assert sorted(roles.values()).count("input") == 1
    pointed = {each.buffer for call in built.calls for each in call.arguments if isinstance(each, Pointer)}
    assert pointed == set(roles)
    assert f"void {built.calls[0].kernel}(" in built.source


def test_costs_of_a_convolution() -> None:
    call = network("resnet").calls[2]  # 64 channels of 56 x 56, windows of 3 x 3, 64 channels
    assert call.kernel == "convolution"
    assert call.logical.grid == (56 * 56 // 32, 2, 1)
    assert call.logical.block == (16, 16, 1)
    assert call.flop_per_block == 2 * 32 * 32 * (64 * 9)
    assert call.efficiency == pytest.approx(1 / 4 / 1.75)  # to read takes 4 times as long, to fill 1.75 times
    numbers = 64 * 56 * 56 + 64 * 64 * 9 + 64 + 64 * 56 * 56
    assert call.bytes_per_block * call.logical.blocks == pytest.approx(4 * numbers)
    scalars = [struct.unpack("<i", each.value)[0] for each in call.arguments if isinstance(each, Scalar)]
    assert scalars == [64, 56, 64, 56, 3, 1, 1, 0, 1]


def test_costs_of_a_fully_connected_layer() -> None:
    call = network("alexnet").calls[8]
    assert call.kernel == "fully_connected"
    assert call.logical.blocks == 4096
    assert call.bytes_per_block * 4096 == pytest.approx(4 * (9216 + 4096 * (9216 + 2)))


def test_a_step_of_a_recurrent_network_costs_more_once_there_is_a_state() -> None:
    first, second, *_ = network("lstm", units=64, inputs=32, steps=3).calls
    assert first.flop_per_block == 2 * 4 * 32 + 4 * 256
    assert second.flop_per_block == 2 * 4 * (32 + 64) + 4 * 256


def test_a_thread_of_a_recurrent_network_waits_for_each_row_that_it_reads() -> None:
    first, second, *_ = network("lstm", units=512, inputs=256, steps=3).calls
    assert first.waits_per_block == 4 * 1 + 2
    assert second.waits_per_block == 4 * (1 + 2) + 2
    assert network("alexnet").calls[8].waits_per_block == 9216 / 256 / 4 + 2  # the loads of four iterations together


def test_sides_after_layers_with_windows() -> None:
    assert pooled_side(224, 11, 4, 2, round_up=False) == 55
    assert pooled_side(32, 3, 2, 0, round_up=True) == 16
    assert pooled_side(32, 3, 2, 0, round_up=False) == 15
    assert pooled_side(2, 1, 3, 0, round_up=True) == 1  # a second window would begin outside


def test_bad_sizes() -> None:
    with pytest.raises(InputError, match="network of the benchmark: 'vgg'"):
        network("vgg")
    with pytest.raises(InputError, match="lstm has no side"):
        network("lstm", side=64)
    with pytest.raises(InputError, match="classes of resnet is 0"):
        network("resnet", classes=0)
    with pytest.raises(InputError, match="too small"):
        network("alexnet", side=32)
    with pytest.raises(InputError, match="no channels are left"):
        network("squeezenet", narrow=32)


def test_workloads_are_those_of_the_paper() -> None:
    said = {
        letter: (made.critical.network.name, made.critical.arrivals, made.normal.network.name)
        for letter, made in ((letter, workload(letter)) for letter in WORKLOADS)
    }
    assert said == {
        "A": ("alexnet", "closed", "cifarnet"),
        "B": ("squeezenet", "uniform:10/s", "alexnet"),
        "C": ("gru", "poisson:10/s", "resnet"),
        "D": ("lstm", "uniform:10/s", "squeezenet"),
    }
    made = workload("a")
    assert made.critical.critical
    assert not made.normal.critical
    assert made.normal.arrivals == "closed"
    assert {figure.workload for figure in PUBLISHED} == {*WORKLOADS, "LGSVL"}
    with pytest.raises(InputError, match="unknown workload: 'E'"):
        workload("E")


SLOW = ("gru_cell", "lstm_cell")
"""Whose forms take seconds to compile: many sums side by side."""


def assert_up_to_date(kernels: Sequence[str], architectures: Sequence[str] = (ARCHITECTURE,)) -> None:
    stored = json.loads(mdtb_resources.FILE.read_text(encoding="utf-8"))
    made = mdtb_resources.table(kernels, architectures)
    if stored["compiler"] != made["compiler"]:
        pytest.skip(f"stored by {stored['compiler']}, and this is {made['compiler']}")
    for arch, kernel in product(architectures, kernels):
        known = stored["architectures"][arch][kernel]
        assert known == made["architectures"][arch][kernel], "run python tests/elastic/mdtb_resources.py"


def test_the_stored_table_is_up_to_date() -> None:
    assert_up_to_date([kernel for kernel in KERNELS if kernel not in SLOW])


@pytest.mark.slow
def test_the_stored_table_is_up_to_date_for_cells_and_every_architecture() -> None:
    assert_up_to_date(KERNELS, mdtb_resources.ARCHITECTURES)


def test_every_call_has_resources() -> None:
    assert ARCHITECTURE in ARCHES
    assert set(stored_resources()) == set(KERNELS)
    for name in NETWORKS:
        for call in network(name).calls:
            assert sorted(call.resources) == [1, 2, 4, 8]
            assert call.resources[1].spill_bytes == 0


def test_kernels_need_what_the_compiler_for_their_gpu_says() -> None:
    task = GpuTask("lstm", network("lstm", units=8, inputs=8, steps=1))
    (on_h100,) = compiled_for(find_gpu("h100"), [task])
    assert [each.resources[1].registers_per_thread for each in task.network.calls] == [40, 36]
    assert [each.resources[1].registers_per_thread for each in on_h100.network.calls] == [32, 31]
    assert stored_resources("sm_72") == stored_resources("sm_75")  # of Xavier, which NVRTC no longer compiles for
    own = replace(task, network=replace(task.network, calls=[replace(task.network.calls[0], resources={})]))
    (as_it_was,) = compiled_for(find_gpu("h100"), [own])
    assert as_it_was.network.calls == own.network.calls

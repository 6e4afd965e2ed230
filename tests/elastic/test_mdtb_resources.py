"""The stored table of what compiled kernels need is that which its command makes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import mdtb_resources
import pytest
from kernel_corpus import ARCHES

from edgetune.stages.elastic.gpu import find_gpu
from edgetune.stages.elastic.mdtb.networks import (
    ARCHITECTURE,
    KERNELS,
    NETWORKS,
    compiled_for,
    network,
    stored_resources,
)
from edgetune.stages.elastic.work import GpuTask

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
    assert compiled_for(find_gpu("h100"), [own]) == (own,)

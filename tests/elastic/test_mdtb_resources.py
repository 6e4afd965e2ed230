"""The stored table of what compiled kernels need is that which its command makes."""

from __future__ import annotations

import json
from collections.abc import Sequence

import mdtb_resources
import pytest

from edgetune.stages.elastic.compiler import ARCHES
from edgetune.stages.elastic.mdtb.networks import ARCHITECTURE, KERNELS, NETWORKS, network, stored_resources

SLOW = ("gru_cell", "lstm_cell")
"""Whose forms take seconds to compile: many sums side by side."""


def assert_up_to_date(kernels: Sequence[str]) -> None:
    stored, made = json.loads(mdtb_resources.FILE.read_text(encoding="utf-8")), mdtb_resources.table(kernels)
    if stored["compiler"] != made["compiler"]:
        pytest.skip(f"stored by {stored['compiler']}, and this is {made['compiler']}")
    assert stored["architecture"] == made["architecture"]
    for kernel in kernels:
        assert stored["kernels"][kernel] == made["kernels"][kernel], "run python tests/elastic/mdtb_resources.py"


def test_the_stored_table_is_up_to_date() -> None:
    assert_up_to_date([kernel for kernel in KERNELS if kernel not in SLOW])


@pytest.mark.slow
def test_the_stored_table_is_up_to_date_for_cells() -> None:
    assert_up_to_date(SLOW)


def test_every_call_has_resources() -> None:
    assert ARCHITECTURE in ARCHES
    assert set(stored_resources()) == set(KERNELS)
    for name in NETWORKS:
        for call in network(name).calls:
            assert sorted(call.resources) == [1, 2, 4, 8]
            assert call.resources[1].spill_bytes == 0

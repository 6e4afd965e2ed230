"""The stored table of what compiled kernels need is that which its command makes."""

from __future__ import annotations

import json

import mdtb_resources
import pytest

from edgetune.elastic.compiler import ARCHES
from edgetune.elastic.mdtb.compiled import ARCHITECTURE, KERNELS, stored_resources
from edgetune.elastic.mdtb.networks import NETWORKS, network


@pytest.fixture(scope="module")
def made() -> dict[str, object]:
    return mdtb_resources.table()


def test_the_stored_table_is_up_to_date(made: dict[str, object]) -> None:
    stored = json.loads(mdtb_resources.FILE.read_text(encoding="utf-8"))
    if stored["compiler"] != made["compiler"]:
        pytest.skip(f"stored by {stored['compiler']}, and this is {made['compiler']}")
    assert stored == made, "run python tests/elastic/mdtb_resources.py"


def test_every_call_has_resources() -> None:
    assert ARCHITECTURE in ARCHES
    assert set(stored_resources()) == set(KERNELS)
    for name in NETWORKS:
        for call in network(name).calls:
            assert sorted(call.resources) == [1, 2, 4, 8]
            assert call.resources[1].spill_bytes == 0

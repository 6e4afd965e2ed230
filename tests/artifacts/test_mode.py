"""A power mode is a set of knobs, some of them unset."""

from __future__ import annotations

import pytest

from edgetune.artifacts.mode import KNOBS, Mode
from edgetune.artifacts.profile import ProfileRow


def test_knobs_are_listed_in_column_order_without_the_unset():
    assert list(Mode(gpu_mhz=726.75, cpu_cores=8).knobs().items()) == [("cpu_cores", 8), ("gpu_mhz", 726.75)]


def test_a_mode_is_built_from_its_knobs_with_native_types():
    mode = Mode.of({"cpu_cores": 8.0, "mem_mhz": 2133})
    assert mode == Mode(cpu_cores=8, mem_mhz=2133.0)
    assert type(mode.cpu_cores) is int
    assert Mode.of(mode.knobs()) == mode


def test_an_unknown_knob_is_refused():
    with pytest.raises(KeyError, match="gpu_ghz"):
        Mode.of({"gpu_ghz": 1.3})


def test_a_mode_reads_as_a_person_would_say_it():
    assert str(Mode(cpu_cores=4, gpu_mhz=1300.5)) == "4 cores, GPU 1300.5 MHz"
    assert str(Mode(cpu_mhz=1344, mem_mhz=665.6, power_limit_w=150)) == "CPU 1344 MHz, memory 665.6 MHz, limit 150 W"
    assert str(Mode()) == "as found"


def test_a_profile_row_knows_its_mode_and_point():
    row = ProfileRow("resnet18", "train", 16, 0.06, cpu_cores=12, gpu_mhz=1300.5)
    assert row.mode == Mode(cpu_cores=12, gpu_mhz=1300.5)
    assert str(row.point) == "resnet18 train batch 16 [12 cores, GPU 1300.5 MHz]"


def test_every_knob_is_a_column_of_a_profile_row():
    assert set(KNOBS) <= {field for field in ProfileRow.__dataclass_fields__}

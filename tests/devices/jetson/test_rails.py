"""Which rails make a board's total, by their exact names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.devices.capabilities import Absent
from edgetune.devices.jetson.rails import AGX_ORIN, AGX_XAVIER, INPUTS, VDDQ, Channel, choose_total, named
from edgetune.errors import DeviceError


def channels(*labels, chip="ina3221"):
    return [Channel(chip, label, (), 0.43) for label in labels]


BOARDS = {
    "nano": (("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"), "POM_5V_IN"),
    "tx2": (("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI", "VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"), "VDD_IN"),
    "agx-xavier": (("GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"), "GPU+CPU+SOC+CV+VDDRQ+SYS5V"),
    "orin-nano": (("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), "VDD_IN"),
    "agx-orin": (("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", VDDQ), "VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0"),
}


@pytest.mark.parametrize(("labels", "total"), BOARDS.values(), ids=BOARDS)
def test_the_total_of_each_board(labels, total):
    assert choose_total(channels(*labels)).name == total
    assert choose_total(channels(*reversed(labels))).name == total


def test_agx_orin_offers_the_other_sum_and_says_what_is_unverified():
    total = choose_total(channels(*AGX_ORIN, VDDQ))
    assert total.others == (f"VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0+{VDDQ}",)
    assert "unverified" in total.note
    other = choose_total(channels(*AGX_ORIN, VDDQ), total.others[0])
    assert other.name == total.others[0]


def test_thors_input_is_its_unlabelled_chip_and_only_thors():
    found = [*channels("VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"), *channels(None, chip="ina238")]
    assert choose_total(named(found, "tegra264")).name == "VIN"
    assert isinstance(choose_total(named(found, "tegra234")), Absent)


def test_an_unlabelled_chip_among_two_is_not_guessed():
    found = channels(None, None, chip="ina238")
    assert named(found, "tegra264") == []


def test_an_unknown_board_without_an_input_is_absent_and_names_its_rails():
    total = choose_total(channels("VDD_GPU", "VDD_CPU"))
    assert isinstance(total, Absent)
    assert "VDD_GPU, VDD_CPU" in total.reason


def test_a_sum_with_a_part_missing_is_absent_not_smaller():
    assert isinstance(choose_total(channels(*AGX_XAVIER[:-1])), Absent)


def test_two_rails_of_the_same_name_are_not_guessed():
    assert isinstance(choose_total(channels("VDD_IN", "VDD_SOC", "VDD_IN")), Absent)
    assert choose_total(channels("VDD_IN", "VDD_SOC", "VDD_SOC")).name == "VDD_IN"


@given(st.lists(st.text(st.sampled_from("VDINCPU_5")), max_size=6))
def test_no_name_that_only_resembles_one_is_taken(labels):
    labels = [label for label in labels if label not in (*INPUTS, *AGX_XAVIER, *AGX_ORIN)]
    assert isinstance(choose_total(channels(*labels)), Absent)


def test_users_may_name_any_rails():
    total = choose_total(channels("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), "VDD_CPU_GPU_CV + VDD_SOC")
    assert total.name == "VDD_CPU_GPU_CV+VDD_SOC"
    assert "user" in total.note


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("VDD_GPU", "no power rail 'VDD_GPU'"),
        ("", "no power rail ''"),
        ("VDD_SOC+VDD_SOC", "twice"),
        ("VDD_IN+VDD_SOC", "contains"),
    ],
)
def test_choices_that_make_no_sense_are_refused_with_the_rails_there_are(choice, said):
    with pytest.raises(DeviceError, match=said.replace("'", ".")) as caught:
        choose_total(channels("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"), choice)
    assert "VDD_CPU_GPU_CV" in caught.value.hint

"""Which rails make a board's total, by their exact names.

Power monitor chips are found wherever a kernel shows them, and only connected rails are channels.
"""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.devices.capabilities import Absent
from edgetune.devices.jetson.rails import (
    AGX_ORIN,
    AGX_XAVIER,
    DEFAULT_REFRESH_S,
    INPUTS,
    VDDQ,
    Channel,
    choose_total,
    find_channels,
    named,
)
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import KernelFiles


def channels(*labels, chip="ina3221"):
    return [Channel(chip, label, (), 0.43) for label in labels]


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


def test_a_sum_with_a_part_missing_is_absent_not_smaller():
    assert isinstance(choose_total(channels(*AGX_XAVIER[:-1])), Absent)


def test_two_rails_of_the_same_name_are_not_guessed():
    assert isinstance(choose_total(channels("VDD_IN", "VDD_SOC", "VDD_IN")), Absent)
    assert choose_total(channels("VDD_IN", "VDD_SOC", "VDD_SOC")).name == "VDD_IN"


@given(st.lists(st.text(st.sampled_from("VDINCPU_5")), max_size=6))
def test_no_name_that_only_resembles_one_is_taken(labels):
    labels = [label for label in labels if label not in (*INPUTS, *AGX_XAVIER, *AGX_ORIN)]
    assert isinstance(choose_total(channels(*labels)), Absent)


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


LABELS = ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")


@pytest.fixture
def sysfs(tmp_path):
    return KernelFiles(tmp_path)


def add_hwmon(sysfs, folder, labels=LABELS, *, mv=5000, ma=1000, shunt_uohm=5000):
    """Add an INA3221 as kernel 5.10 and later show it, with the files that must never count as power."""
    sysfs.put(f"{folder}/name", "ina3221")
    for number, label in enumerate(labels, start=1):
        if label is not None:
            sysfs.put(f"{folder}/in{number}_label", label)
        sysfs.put(f"{folder}/in{number}_input", mv)
        sysfs.put(f"{folder}/curr{number}_input", ma)
        sysfs.put(f"{folder}/in{number + 3}_input", 5_000)  # shunt voltage, microvolts
        sysfs.put(f"{folder}/shunt{number}_resistor", shunt_uohm)
    sysfs.put(f"{folder}/in7_label", "sum of shunt voltages")
    sysfs.put(f"{folder}/in7_input", 15_000)
    sysfs.put(f"{folder}/curr4_input", 3 * ma)
    sysfs.put(f"{folder}/update_interval", 430)


def add_iio(sysfs, address="6-0040", labels=("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"), *, mv="5000", ma="1000 ma"):
    """Add an INA3221 as kernel 4.9 shows it."""
    folder = f"sys/bus/i2c/drivers/ina3221x/{address}/iio:device0"
    for number, label in enumerate(labels):
        sysfs.put(f"{folder}/rail_name_{number}", label)
        sysfs.put(f"{folder}/in_voltage{number}_input", mv)
        sysfs.put(f"{folder}/in_current{number}_input", ma)
        sysfs.put(f"{folder}/in_power{number}_input", 5000)
        sysfs.put(f"{folder}/in_power{number}_trigger_input", 5000)
    return folder


def labels(sysfs):
    return [channel.label for channel in find_channels(sysfs)]


def watts(sysfs):
    return {channel.label: channel.power_w(channel.counts(sysfs)) for channel in find_channels(sysfs)}


def test_power_is_volts_times_amps_of_each_labelled_channel(sysfs):
    add_hwmon(sysfs, "sys/class/hwmon/hwmon1", mv=4968, ma=1504)
    assert watts(sysfs) == {label: pytest.approx(4.968 * 1.504) for label in LABELS}


@pytest.mark.parametrize("number", [0, 2, 17])
def test_the_number_of_a_hwmon_does_not_matter_and_other_sensors_are_not_chips(sysfs, number):
    sysfs.put("sys/class/hwmon/hwmon1/name", "pwmfan")
    sysfs.put("sys/class/hwmon/hwmon1/in1_label", "VDD_IN")
    add_hwmon(sysfs, f"sys/class/hwmon/hwmon{number}")
    assert labels(sysfs) == list(LABELS)


def test_a_chip_without_a_class_entry_is_found_by_its_driver(sysfs):
    add_hwmon(sysfs, "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3")
    assert labels(sysfs) == list(LABELS)


def test_a_chip_shown_in_both_places_is_read_once(sysfs):
    add_hwmon(sysfs, "sys/class/hwmon/hwmon3")
    add_hwmon(sysfs, "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3")
    assert labels(sysfs) == list(LABELS)


@pytest.mark.parametrize("unconnected", [None, "NC", ""])
def test_channels_without_a_rail_are_left_out(sysfs, unconnected):
    add_hwmon(sysfs, "sys/class/hwmon/hwmon0", (unconnected, "VDDQ_VDD2_1V8AO", unconnected))
    assert labels(sysfs) == ["VDDQ_VDD2_1V8AO"]


def test_a_channel_that_is_switched_off_is_left_out(sysfs):
    add_hwmon(sysfs, "sys/class/hwmon/hwmon0")
    sysfs.deny_reading("sys/class/hwmon/hwmon0/curr2_input", errno.ENODATA)
    assert labels(sysfs) == ["VDD_IN", "VDD_SOC"]


def test_the_interval_is_the_drivers_else_what_l4t_sets(sysfs):
    add_hwmon(sysfs, "sys/class/hwmon/hwmon0")
    sysfs.put("sys/class/hwmon/hwmon0/update_interval", 860)
    assert {channel.refresh_s for channel in find_channels(sysfs)} == {0.86}
    sysfs.remove("sys/class/hwmon/hwmon0/update_interval")
    assert {channel.refresh_s for channel in find_channels(sysfs)} == {DEFAULT_REFRESH_S}


def test_kernel_4_9_shows_names_and_units_in_its_values(sysfs):
    add_iio(sysfs, mv="5000 mv", ma="2504 ma")
    assert watts(sysfs) == {f"POM_5V_{rail}": pytest.approx(5.0 * 2.504) for rail in ("IN", "GPU", "CPU")}


def test_triggers_of_kernel_4_9_are_never_read(sysfs):
    folder = add_iio(sysfs)
    for number in range(3):
        sysfs.deny_reading(f"{folder}/in_power{number}_trigger_input", errno.EIO)
    assert len(watts(sysfs)) == 3


def test_a_rail_of_kernel_4_9_that_does_not_tell_its_name_is_left_out(sysfs):
    add_iio(sysfs)
    sysfs.deny_reading("sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/rail_name_1", errno.EIO)
    assert [channel.label for channel in find_channels(sysfs)] == ["POM_5V_IN", "POM_5V_CPU"]


def test_an_ina238_counts_microwatts(sysfs):
    sysfs.put("sys/class/hwmon/hwmon2/name", "ina238")
    sysfs.put("sys/class/hwmon/hwmon2/power1_input", 23_450_000)
    (channel,) = find_channels(sysfs)
    assert (channel.chip, channel.label) == ("ina238", None)
    assert channel.power_w(channel.counts(sysfs)) == pytest.approx(23.45)


@pytest.mark.parametrize(
    ("mv", "ma", "believed"),
    [
        (26_000, 32_752, True),  # the ends of both ranges: 26 V, and one step below 163.8 mV over 5 milliohms
        (26_008, 1000, False),
        (5000, 32_760, False),  # full scale: cut off
        (5000, -24, True),  # offset of a rail that is off
        (5000, -40, False),
        (-8, 0, True),
        (-32, 0, False),
        (0, 0, True),
    ],
)
def test_what_the_chip_cannot_measure_has_no_power(sysfs, mv, ma, believed):
    add_hwmon(sysfs, "sys/class/hwmon/hwmon0", mv=mv, ma=ma)
    channel = find_channels(sysfs)[0]
    power_w = channel.power_w(channel.counts(sysfs))
    assert power_w == (pytest.approx(mv * ma / 1e6) if believed else None)

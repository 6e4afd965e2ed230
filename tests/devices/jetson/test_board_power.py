"""Board power: read on the device's clock as often as the chips renew it, and never believed when it cannot be true."""

import errno
from itertools import pairwise

import pytest

from edgetune.devices.capabilities import Absent
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.power import BoardMeter, BoardPower, open_board_power
from edgetune.devices.telemetry import PolledRecording
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_jetson import FakeClock

CHIP = "sys/class/hwmon/hwmon1"
SECOND = "sys/class/hwmon/hwmon2"
REFRESH_NS = 430_000_000
BOARDS = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]


@pytest.fixture
def clock():
    return FakeClock(start_ns=10**18)


@pytest.fixture
def sysfs(tmp_path):
    sysfs = KernelFiles(tmp_path)
    add_chip(sysfs, CHIP, VDD_IN=(5000, 2000), VDD_CPU_GPU_CV=(5000, 800), VDD_SOC=(5000, 400))
    return sysfs


def add_chip(sysfs, folder, *, interval_ms=430, **rails):
    sysfs.put(f"{folder}/name", "ina3221")
    for number, (label, (mv, ma)) in enumerate(rails.items(), start=1):
        sysfs.put(f"{folder}/in{number}_label", label)
        sysfs.put(f"{folder}/in{number}_input", mv)
        sysfs.put(f"{folder}/curr{number}_input", ma)
        sysfs.put(f"{folder}/shunt{number}_resistor", 5000)
    sysfs.put(f"{folder}/update_interval", interval_ms)


def opened(sysfs, clock, soc="tegra234", **options) -> BoardPower:
    power = open_board_power(sysfs, clock, soc, **options)
    assert not isinstance(power, Absent), power.reason
    return power


class Polls:
    """A recording that is polled by the test instead of by a thread, with the clock moved in between."""

    def __init__(self, power, clock):
        self.recording = PolledRecording(BoardMeter(power, clock).read)
        self.clock = clock

    def after(self, seconds=0.43):
        self.clock.sleep_s(seconds)
        self.recording.poll()

    @property
    def watts(self):
        return [reading.power_w for reading in self.recording.readings]


def test_readings_wait_for_the_chip_and_settle_after_two_of_its_intervals(sysfs, clock):
    power = opened(sysfs, clock)
    assert power.refresh_s == 0.43
    assert power.settle_s == pytest.approx(0.86)
    sysfs.put(f"{CHIP}/update_interval", 1720)
    assert opened(sysfs, clock).refresh_s == 1.72


def test_a_quick_chip_is_not_polled_more_often_than_ten_times_a_second(sysfs, clock):
    sysfs.put(f"{CHIP}/update_interval", 3)
    assert opened(sysfs, clock).refresh_s == 0.1


def test_a_driver_that_waits_for_each_conversion_sets_the_pace(sysfs, clock):
    read = sysfs.read

    def slow(path):
        if path.endswith("_input"):
            clock.sleep_s(0.43)
        return read(path)

    sysfs.read = slow
    assert opened(sysfs, clock).refresh_s == pytest.approx(6 * 0.43)


def test_the_slowest_chip_of_a_sum_sets_the_pace(sysfs, clock):
    add_chip(sysfs, CHIP, GPU=(5000, 100), CPU=(5000, 100), SOC=(5000, 100))
    add_chip(sysfs, SECOND, CV=(5000, 100), VDDRQ=(5000, 100), SYS5V=(5000, 100), interval_ms=860)
    power = opened(sysfs, clock, "tegra194")
    assert power.refresh_s == 0.86
    assert power.read().power_w == pytest.approx(3.0)


def test_a_reading_is_stamped_when_the_rails_of_the_total_have_been_read(sysfs, clock):
    read = sysfs.read
    power = opened(sysfs, clock)
    before_ns = clock.now_ns()
    order = []

    def slow(path):
        order.append(path.rpartition("/")[2])
        clock.advance_ns(554_000)
        return read(path)

    sysfs.read = slow
    assert power.read().time_ns == before_ns + 2 * 554_000
    assert order[:2] == ["in1_input", "curr1_input"]


def test_each_poll_gives_what_the_chip_shows_then(sysfs, clock):
    polls = Polls(opened(sysfs, clock), clock)
    for ma in (1000, 1400, 1400, 800):
        sysfs.put(f"{CHIP}/curr1_input", ma)
        polls.after()
    assert polls.watts == pytest.approx([5.0, 7.0, 7.0, 4.0])
    times = [reading.time_ns for reading in polls.recording.readings]
    assert [later - earlier for earlier, later in pairwise(times)] == [REFRESH_NS] * 3


def test_the_poll_at_the_end_does_not_repeat_a_mean(sysfs, clock):
    polls = Polls(opened(sysfs, clock), clock)
    polls.after()
    polls.after(0.01)
    assert len(polls.watts) == 1


def test_both_sums_of_agx_orin(sysfs, clock):
    add_chip(sysfs, CHIP, VDD_GPU_SOC=(19_000, 500), VDD_CPU_CV=(19_000, 200), VIN_SYS_5V0=(5000, 1000))
    add_chip(sysfs, SECOND, NC=(0, 0), VDDQ_VDD2_1V8AO=(5000, 200))
    power = opened(sysfs, clock)
    assert power.source == "ina3221:VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0"
    assert power.read().power_w == pytest.approx(9.5 + 3.8 + 5.0)
    facts = power.conditions()
    assert facts["power_source"] == power.source
    assert "unverified" in facts["power_note"]
    assert facts["power_left_out"] == {
        "VDDQ_VDD2_1V8AO": {"readings": 2, "mean_w": 1.0, "mean_share_of_total": pytest.approx(1 / 18.3)}
    }  # the sensor was tried when it was opened
    (other,) = facts["power_alternatives"]
    with_memory = opened(sysfs, clock, choice=other)
    assert with_memory.source == "ina3221:VDD_GPU_SOC+VDD_CPU_CV+VIN_SYS_5V0+VDDQ_VDD2_1V8AO"
    assert with_memory.read().power_w == pytest.approx(9.5 + 3.8 + 5.0 + 1.0)
    assert "power_left_out" not in with_memory.conditions()


def test_all_rails_are_shown_those_that_fail_as_missing(sysfs, clock):
    power = opened(sysfs, clock)
    assert power.rails() == pytest.approx({"VDD_IN": 10.0, "VDD_CPU_GPU_CV": 4.0, "VDD_SOC": 2.0})
    sysfs.deny_reading(f"{CHIP}/in2_input", errno.EIO)
    sysfs.put(f"{CHIP}/curr3_input", 32_760)
    assert power.rails() == {"VDD_IN": pytest.approx(10.0), "VDD_CPU_GPU_CV": None, "VDD_SOC": None}


@pytest.mark.parametrize(
    ("file", "garbage"), [("curr1_input", 32_760), ("curr1_input", -900), ("in1_input", 65_528), ("curr1_input", 0)]
)
def test_what_cannot_be_is_discarded_and_counted(sysfs, clock, file, garbage):
    power = opened(sysfs, clock)
    polls = Polls(power, clock)
    good = sysfs.read(f"{CHIP}/{file}")
    polls.after()
    sysfs.put(f"{CHIP}/{file}", garbage)
    polls.after()
    sysfs.put(f"{CHIP}/{file}", good)
    polls.after()
    assert polls.watts == pytest.approx([10.0, 10.0])
    assert (power.discarded, power.errors) == (1, 0)
    assert polls.recording.failure is None


@pytest.mark.parametrize(("error", "said"), [(errno.EIO, "Input/output error"), (errno.ENODATA, "No data")])
def test_an_error_that_stays_ends_the_recording_with_its_reason(sysfs, clock, error, said):
    polls = Polls(opened(sysfs, clock), clock)
    polls.after()
    sysfs.read = broken(error)
    for _ in range(4):
        polls.after()
    assert polls.recording.failure is None
    polls.after()
    assert said in polls.recording.failure
    assert polls.watts == pytest.approx([10.0])


def test_errors_between_good_readings_never_end_a_recording(sysfs, clock):
    power = opened(sysfs, clock)
    polls = Polls(power, clock)
    good, bad = sysfs.read, broken(errno.EIO)
    for _ in range(4):
        sysfs.read = bad
        for _ in range(4):
            polls.after()
        sysfs.read = good
        polls.after()
    assert polls.recording.failure is None
    assert (len(polls.watts), power.errors) == (4, 16)


def broken(error):
    def read(path):
        raise OSError(error, "No data available" if error == errno.ENODATA else "Input/output error", path)

    return read


def test_a_stuck_sensor_ends_the_recording_and_its_repeats_are_not_kept(sysfs, clock):
    power = opened(sysfs, clock)
    polls = Polls(power, clock)
    for ma in (1000, 1400):
        sysfs.put(f"{CHIP}/curr1_input", ma)
        polls.after()
    begun_s = clock.now_ns() / 1e9
    while polls.recording.failure is None:
        polls.after()
    assert clock.now_ns() / 1e9 - begun_s == pytest.approx(300, abs=1)
    assert "stuck" in polls.recording.failure
    assert polls.watts == pytest.approx([5.0, 7.0])


def test_a_sensor_that_work_does_not_move_is_stuck_after_half_a_minute_and_may_recover(sysfs, clock):
    power = opened(sysfs, clock)
    for _ in range(7):
        polls = Polls(power, clock)
        for _ in range(11):
            polls.after()
    assert "stuck" in polls.recording.failure
    assert polls.watts == []
    sysfs.put(f"{CHIP}/curr1_input", 1000)
    polls = Polls(power, clock)
    polls.after()
    assert polls.watts == pytest.approx([5.0])


def test_equal_readings_with_minutes_between_are_not_stuck(sysfs, clock):
    power = opened(sysfs, clock)
    for _ in range(5):
        clock.sleep_s(120)
        polls = Polls(power, clock)
        polls.after()
        assert polls.recording.failure is None


def test_steady_power_with_one_step_of_noise_anywhere_is_not_stuck(sysfs, clock):
    polls = Polls(opened(sysfs, clock), clock)
    for number in range(200):
        if number % 50 == 0:
            sysfs.put(f"{CHIP}/curr3_input", 400 + number % 100)
        polls.after()
    assert polls.recording.failure is None
    assert len(polls.watts) == 200


def test_a_kernel_without_chips_is_absent(tmp_path, clock):
    assert "INA3221" in open_board_power(KernelFiles(tmp_path), clock, "tegra234").reason


def test_rails_of_an_unknown_board_are_named(sysfs, clock):
    add_chip(sysfs, CHIP, VDD_A=(5000, 1), VDD_B=(5000, 1), VDD_C=(5000, 1))
    assert "VDD_A, VDD_B, VDD_C" in open_board_power(sysfs, clock, "tegra234").reason
    assert opened(sysfs, clock, choice="VDD_A+VDD_B").source == "ina3221:VDD_A+VDD_B"


def test_a_chip_that_never_answers_is_absent_with_the_reason(sysfs, clock):
    sysfs.deny_reading(f"{CHIP}/in1_input", errno.EIO)
    assert "Input/output error" in open_board_power(sysfs, clock, "tegra234").reason


def test_permission_denied_says_how_to_permit_it(tmp_path, clock):
    sysfs = KernelFiles(tmp_path)
    folder = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
    for number, label in enumerate(("POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU")):
        sysfs.put(f"{folder}/rail_name_{number}", label)
        sysfs.put(f"{folder}/in_voltage{number}_input", 5000)
        sysfs.put(f"{folder}/in_current{number}_input", 500)
    assert opened(sysfs, clock, "tegra210").read().power_w == pytest.approx(2.5)
    sysfs.deny_reading(f"{folder}/in_current0_input")
    reason = open_board_power(sysfs, clock, "tegra210").reason
    assert "permission denied" in reason
    assert "chmod" in reason


@pytest.mark.parametrize(("name", "kernel"), BOARDS)
def test_the_total_of_every_board_in_the_catalogue(tmp_path, clock, name, kernel):
    board = make_board(tmp_path, name, kernel=kernel, clock=clock, user="user")
    rails = board.board.catalogue.rails
    power = opened(board, clock, board.board.soc)
    expected = {rails.total} if rails.total else set(rails.total_sum)
    assert set(power.source.partition(":")[2].split("+")) == expected
    assert set(power.rails()) == {rail.name for chip in rails.chips for rail in chip.rails if rail.name}
    assert power.read().power_w == pytest.approx(sum(power.rails()[rail] for rail in expected))
    assert power.read().power_w > 1
    assert board.writes == []

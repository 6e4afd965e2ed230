"""The fake CPU against what kernels are known to answer: limits by release, hotplug, offline clusters."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock

CPU = "sys/devices/system/cpu"
POLICY = f"{CPU}/cpufreq/policy0"
ORIN = "jetson-agx-orin-64gb"
RELEASES = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def limits(kernel, policy=POLICY):
    return tuple(int(kernel.read(f"{policy}/scaling_{end}_freq")) for end in ("min", "max"))


def orin(tmp_path, kernel="5.10", **behaviour):
    return make_board(tmp_path, ORIN, kernel=kernel, clock=FakeClock(), **behaviour)


@pytest.mark.parametrize(("name", "release"), RELEASES)
def test_every_board_boots_into_its_mode(as_released, name, release):
    kernel = as_released(name, release)
    board = kernel.board
    (preset,) = [preset for preset in board.presets.modes if preset.name == board.mode]
    online = [cpu for cpu in board.catalogue.cpus if kernel.read_int(f"{CPU}/cpu{cpu}/online") == 1]
    assert online == list(preset.cores)
    for cluster in board.catalogue.clusters:
        if set(cluster.cpus) & set(online):
            listed = kernel.read(f"{CPU}/cpu{cluster.cpus[0]}/cpufreq/scaling_available_frequencies")
            assert tuple(map(int, listed.split())) == board.cpu_khz
            low, high = limits(kernel, f"{CPU}/cpufreq/{cluster.policy}")
            asked_low, asked_high = preset.cpu_khz[cluster.name]
            step = 81_000 if name == "jetson-agx-thor" else 76_800
            assert abs(high - (asked_high or board.cpu_khz[-1])) <= step
            assert abs(low - (asked_low or board.cpu_khz[0])) <= step
            assert {low, high} <= set(board.cpu_khz)


def test_the_list_of_clocks_ends_with_a_space(tmp_path):
    text = (orin(tmp_path).root / POLICY / "scaling_available_frequencies").read_text()
    assert text.startswith("115200 192000 ")
    assert text.endswith("2188800 2201600 \n")


def test_a_nano_snaps_a_preset_to_its_table(tmp_path):
    """Captured: the file says 918000 kHz and 640 MHz, the board shows 921600 and 614.4."""
    kernel = make_board(tmp_path, "jetson-nano", mode="5W")
    assert limits(kernel) == (102_000, 921_600)
    assert kernel.read("sys/class/devfreq/57000000.gpu/max_freq") == "614400000"
    assert kernel.read(f"{CPU}/online") == "0-1"


def test_on_4_9_minimum_may_never_pass_maximum(tmp_path):
    kernel = make_board(tmp_path, "jetson-tx2")
    kernel.write(f"{POLICY}/scaling_max_freq", "960000")
    assert error_of(kernel.write, f"{POLICY}/scaling_min_freq", "1113600") == "EINVAL"
    kernel.write(f"{POLICY}/scaling_min_freq", "960000")
    assert error_of(kernel.write, f"{POLICY}/scaling_max_freq", "806400") == "EINVAL"
    assert limits(kernel) == (960_000, 960_000)


@pytest.mark.parametrize("release", ["5.10", "5.15", "6.8"])
def test_later_the_maximum_wins_and_the_minimum_is_remembered(tmp_path, release):
    kernel = orin(tmp_path, release)
    kernel.write(f"{POLICY}/scaling_min_freq", "1036800")
    kernel.write(f"{POLICY}/scaling_max_freq", "499200")
    assert limits(kernel) == (499_200, 499_200)
    kernel.write(f"{POLICY}/scaling_max_freq", "2201600")
    assert limits(kernel) == (1_036_800, 2_201_600)


@pytest.mark.parametrize(("name", "release"), [("jetson-tx2", "4.9"), (ORIN, "5.10")])
def test_limits_stay_within_the_hardware_and_need_not_be_in_the_table(tmp_path, name, release):
    kernel = make_board(tmp_path, name, kernel=release)
    first, last = kernel.board.cpu_khz[0], kernel.board.cpu_khz[-1]
    kernel.write(f"{POLICY}/scaling_min_freq", "0")
    kernel.write(f"{POLICY}/scaling_max_freq", "2147483647")
    assert limits(kernel) == (first, last)
    kernel.write(f"{POLICY}/scaling_max_freq", "1000001")
    assert limits(kernel) == (first, 1_000_001)


@pytest.mark.parametrize("value", ["fast", "", "-1", "1.5"])
def test_what_is_no_number_is_refused(tmp_path, value):
    assert error_of(orin(tmp_path).write, f"{POLICY}/scaling_max_freq", value) == "EINVAL"


def test_a_line_end_does_no_harm(tmp_path):
    kernel = orin(tmp_path)
    kernel.write(f"{POLICY}/scaling_max_freq", "499200\n")
    assert limits(kernel)[1] == 499_200


def test_governors(tmp_path):
    kernel = orin(tmp_path)
    assert kernel.read(f"{POLICY}/scaling_governor") == "schedutil"
    assert kernel.read(f"{POLICY}/scaling_setspeed") == "<unsupported>"
    assert error_of(kernel.write, f"{POLICY}/scaling_governor", "interactive") == "EINVAL"
    assert error_of(kernel.write, f"{POLICY}/scaling_setspeed", "960000") == "EINVAL"
    assert kernel.read(f"{POLICY}/scaling_cur_freq") == "729600"
    kernel.work(cpu=0.5)
    assert kernel.read(f"{POLICY}/scaling_cur_freq") == "2201600"
    kernel.write(f"{POLICY}/scaling_governor", "powersave")
    assert kernel.read(f"{POLICY}/scaling_cur_freq") == "729600"
    kernel.write(f"{POLICY}/scaling_governor", "userspace")
    kernel.write(f"{POLICY}/scaling_setspeed", "1000000")
    assert kernel.read(f"{POLICY}/scaling_cur_freq") == "960000"
    kernel.work()
    kernel.write(f"{POLICY}/scaling_governor", "performance")
    assert kernel.read(f"{POLICY}/scaling_cur_freq") == "2201600"


def test_only_the_measured_clock_shows_throttling(tmp_path):
    kernel = orin(tmp_path)
    kernel.work(cpu=1)
    kernel.throttle(True)
    assert kernel.read(f"{POLICY}/scaling_cur_freq") == "2201600"
    assert kernel.read(f"{POLICY}/cpuinfo_cur_freq") == "1100800"


def test_core_0_stays_and_others_go_and_come(tmp_path):
    kernel = orin(tmp_path)
    assert error_of(kernel.write, f"{CPU}/cpu0/online", "0") == "EPERM"
    kernel.write(f"{CPU}/cpu0/online", "1")
    kernel.write(f"{CPU}/cpu3/online", "0")
    kernel.write(f"{CPU}/cpu11/online", "0")
    assert kernel.read(f"{CPU}/online") == "0-2,4-10"
    assert kernel.read(f"{CPU}/offline") == "3,11"
    assert kernel.read(f"{CPU}/present") == kernel.read(f"{CPU}/possible") == "0-11"
    assert kernel.read(f"{POLICY}/affected_cpus") == "0 1 2"
    assert kernel.read(f"{POLICY}/related_cpus") == "0 1 2 3"
    kernel.write(f"{CPU}/cpu3/online", "1")
    assert kernel.read(f"{CPU}/online") == "0-10"
    assert error_of(kernel.write, f"{CPU}/cpu3/online", "2") == "EINVAL"


def test_core_0_may_have_no_file(tmp_path):
    kernel = orin(tmp_path, cpu0_file=False)
    assert error_of(kernel.read, f"{CPU}/cpu0/online") == "ENOENT"
    assert kernel.read(f"{CPU}/online") == "0-11"


def test_a_stuck_core_is_busy_unless_nothing_changes(tmp_path):
    kernel = orin(tmp_path, stuck_cores=(5,))
    kernel.write(f"{CPU}/cpu5/online", "1")
    assert error_of(kernel.write, f"{CPU}/cpu5/online", "0") == "EBUSY"
    assert kernel.read(f"{CPU}/online") == "0-11"


def test_a_slow_core_shows_its_switch_later(tmp_path):
    clock = FakeClock()
    kernel = make_board(tmp_path, ORIN, clock=clock, slow_cores=(4,))
    kernel.write(f"{CPU}/cpu4/online", "0")
    assert kernel.read(f"{CPU}/cpu4/online") == "1"
    clock.sleep_s(0.2)
    assert kernel.read(f"{CPU}/cpu4/online") == "0"


def switch(kernel, value, cores=(8, 9, 10, 11)):
    for cpu in cores:
        kernel.write(f"{CPU}/cpu{cpu}/online", value)


@pytest.mark.parametrize(("way", "answer"), [("ebusy", "EBUSY"), ("missing", "ENOENT")])
def test_an_offline_cluster_does_not_answer(tmp_path, way, answer):
    kernel = orin(tmp_path, offline_policy=way)
    switch(kernel, "0")
    for name in ("scaling_min_freq", "scaling_cur_freq", "scaling_available_frequencies", "scaling_governor"):
        assert error_of(kernel.read, f"{CPU}/cpufreq/policy8/{name}") == answer
        assert error_of(kernel.read, f"{CPU}/cpu8/cpufreq/{name}") == answer
    assert error_of(kernel.write, f"{CPU}/cpufreq/policy8/scaling_max_freq", "960000") == answer
    assert limits(kernel) == (729_600, 2_201_600)


def test_or_it_is_readable(tmp_path):
    kernel = orin(tmp_path, offline_policy="readable")
    switch(kernel, "0")
    assert limits(kernel, f"{CPU}/cpufreq/policy8") == (729_600, 2_201_600)
    assert error_of(kernel.write, f"{CPU}/cpufreq/policy8/scaling_max_freq", "960000") == "EBUSY"


def test_one_core_keeps_its_cluster_awake(tmp_path):
    kernel = orin(tmp_path)
    switch(kernel, "0", (9, 10, 11))
    assert limits(kernel, f"{CPU}/cpufreq/policy8") == (729_600, 2_201_600)


@pytest.mark.parametrize("way", ["ebusy", "missing", "readable"])
@pytest.mark.parametrize(("reonline", "expected"), [("boot", (115_200, 2_201_600)), ("kept", (729_600, 960_000))])
def test_limits_of_a_cluster_that_comes_back(tmp_path, way, reonline, expected):
    kernel = orin(tmp_path, offline_policy=way, reonline=reonline)
    kernel.write(f"{CPU}/cpufreq/policy8/scaling_max_freq", "960000")
    switch(kernel, "0")
    switch(kernel, "1")
    assert limits(kernel, f"{CPU}/cpu8/cpufreq") == expected


def test_the_denver_cores_of_a_tx2_are_in_the_middle(tmp_path):
    kernel = make_board(tmp_path, "jetson-tx2", mode="MAXQ")
    assert kernel.read(f"{CPU}/online") == "0,3-5"
    assert kernel.read(f"{POLICY}/related_cpus") == "0 3 4 5"
    assert error_of(kernel.read, f"{CPU}/cpu1/cpufreq/scaling_max_freq") == "EBUSY"


def test_idle_states_can_be_disabled(tmp_path):
    kernel = orin(tmp_path)
    state = f"{CPU}/cpu3/cpuidle/state1"
    assert (kernel.read(f"{state}/name"), kernel.read(f"{state}/disable")) == ("c7", "0")
    kernel.write(f"{state}/disable", "1")
    assert kernel.read(f"{state}/disable") == "1"
    assert kernel.read(f"{CPU}/cpu2/cpuidle/state1/disable") == "0"


@pytest.fixture(scope="module")
def two_kernels(tmp_path_factory):
    return [
        make_board(tmp_path_factory.mktemp("old"), "jetson-tx2"),
        make_board(tmp_path_factory.mktemp("new"), ORIN, kernel="5.15"),
    ]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["min", "max"]), st.integers(0, 4_000_000)), min_size=1, max_size=12))
def test_whatever_is_asked_the_limits_are_those_of_the_kernels_rule(two_kernels, asked):
    """4.9 keeps what it showed unless the limits would cross; later kernels show their last requests, maximum first."""
    old, new = two_kernels
    first, last = old.board.cpu_khz[0], old.board.cpu_khz[-1]
    shown = dict(zip(("min", "max"), limits(old), strict=True))
    wanted = dict(zip(("min", "max"), limits(new), strict=True))
    for end in ("max", "min"):  # so that the requests behind the limits are known
        new.write(f"{POLICY}/scaling_{end}_freq", str(wanted[end]))
    for end, khz in asked:
        wanted[end] = khz
        new.write(f"{POLICY}/scaling_{end}_freq", str(khz))
        high = min(max(wanted["max"], new.board.cpu_khz[0]), new.board.cpu_khz[-1])
        assert limits(new) == (min(max(wanted["min"], new.board.cpu_khz[0]), high), high)

        crossing = khz > shown["max"] if end == "min" else khz < shown["min"]
        if crossing:
            assert error_of(old.write, f"{POLICY}/scaling_{end}_freq", str(khz)) == "EINVAL"
        else:
            old.write(f"{POLICY}/scaling_{end}_freq", str(khz))
            shown[end] = min(max(khz, first), last)
        assert limits(old) == (shown["min"], shown["max"])

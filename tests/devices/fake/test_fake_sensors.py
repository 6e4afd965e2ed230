"""The fake sensors: power of each rail, temperatures, over-current counters and fan, named as on each board."""

import errno

import pytest

from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_clock import FakeClock
from edgetune.testing.fake_kernel import FakeKernel

ORIN = "jetson-agx-orin-64gb"
NANO = "jetson-orin-nano-8gb"
RELEASES = [(name, kernel) for name in board_names() for kernel in load_board(name).kernels]


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def hwmon(kernel, name):
    """The folders of all hwmon devices of a name."""
    return [
        path.removesuffix("/name") for path in kernel.glob("sys/class/hwmon/hwmon*/name") if kernel.read(path) == name
    ]


def chip(kernel, address):
    (folder,) = kernel.glob(f"sys/bus/i2c/drivers/ina3221/{address}/hwmon/hwmon*")
    return folder


@pytest.fixture
def clock():
    return FakeClock()


@pytest.mark.parametrize(("name", "release"), RELEASES)
def test_every_rail_reads_volts_amperes_and_more_under_load(tmp_path, clock, name, release):
    kernel = make_board(tmp_path, name, kernel=release, clock=clock)

    def total_mw():
        clock.sleep_s(1)
        if release == "4.9":
            rails = "sys/bus/i2c/drivers/ina3221x/*/iio:device*/in_power?_input"
            return sum(kernel.read_int(path) for path in kernel.glob(rails))
        watts = 0
        for folder in hwmon(kernel, "ina3221"):
            for n in (1, 2, 3):
                watts += kernel.read_int(f"{folder}/in{n}_input") * kernel.read_int(f"{folder}/curr{n}_input") / 1000
        return watts

    idle = total_mw()
    kernel.work(gpu=1, cpu=1)
    assert 1000 < idle < total_mw() < 200_000


def test_rails_of_an_agx_orin(tmp_path, clock):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", clock=clock)
    first, second = chip(kernel, "1-0040"), chip(kernel, "1-0041")
    assert [kernel.read(f"{first}/in{n}_label") for n in (1, 2, 3)] == ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"]
    assert [kernel.read(f"{second}/in{n}_label") for n in (1, 2, 3)] == ["NC", "VDDQ_VDD2_1V8AO", "NC"]
    assert kernel.read(f"{first}/in7_label") == "sum of shunt voltages"
    assert kernel.glob(f"{first}/power*") == []


@pytest.mark.parametrize(("labels", "expected"), [("missing", ["in2_label", "in7_label"]), ("none", ["in7_label"])])
def test_labels_may_be_missing(tmp_path, labels, expected):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", labels=labels)
    folder = chip(kernel, "1-0041")
    assert [path.rpartition("/")[2] for path in kernel.glob(f"{folder}/*_label")] == expected


def test_figures_come_in_the_steps_of_the_converters(tmp_path, clock):
    kernel = make_board(tmp_path, NANO, kernel="5.15", clock=clock)
    folder = chip(kernel, "1-0040")
    for _ in range(5):
        clock.sleep_s(0.5)
        assert kernel.read_int(f"{folder}/in1_input") % 8 == 0
        assert kernel.read_int(f"{folder}/in4_input") % 40 == 0
        assert kernel.read_int(f"{folder}/curr1_input") % 8 == 0  # 40 uV over 5 mOhm
        assert kernel.read_int(f"{folder}/curr1_input") * 5 == kernel.read_int(f"{folder}/in4_input")


def test_the_sum_leaves_out_what_the_device_tree_excludes(tmp_path, clock):
    kernel = make_board(tmp_path, ORIN, clock=clock)
    folder = chip(kernel, "1-0040")
    parts = [kernel.read_int(f"{folder}/curr{n}_input") for n in (1, 2, 3)]
    assert min(parts) > 0
    assert kernel.read_int(f"{folder}/curr4_input") == parts[0] + parts[1]


def test_values_are_renewed_every_430_ms_for_all_processes(tmp_path, clock):
    kernel = make_board(tmp_path, NANO, kernel="5.15", clock=clock)
    path = f"{chip(kernel, '1-0040')}/curr1_input"
    before = kernel.read(path)
    kernel.work(gpu=1, cpu=1)
    clock.sleep_s(0.42)
    assert kernel.read(path) == FakeKernel(kernel.root, clock=clock).read(path) == before
    clock.sleep_s(0.02)
    assert int(kernel.read(path)) > 2 * int(before)
    assert kernel.read(path) == FakeKernel(kernel.root, clock=clock).read(path)


def test_the_same_seed_gives_the_same_figures(tmp_path, clock):
    def current(folder, seed):
        kernel = make_board(tmp_path / folder, NANO, kernel="5.15", clock=clock, seed=seed)
        kernel.work(gpu=1, cpu=1)
        return [kernel.read(path) for path in kernel.glob("sys/class/hwmon/hwmon*/*_input")]

    assert current("a", 1) == current("b", 1) != current("c", 2)


def test_a_channel_that_is_off_has_no_data(tmp_path):
    kernel = make_board(tmp_path, ORIN)
    folder = chip(kernel, "1-0040")
    kernel.write(f"{folder}/in2_enable", "0")
    assert error_of(kernel.read, f"{folder}/in2_input") == "ENODATA"
    assert error_of(kernel.read, f"{folder}/curr2_input") == "ENODATA"
    assert kernel.read_int(f"{folder}/in1_input") > 0


def test_the_older_driver_gives_power_and_limits_with_a_unit(tmp_path, clock):
    kernel = make_board(tmp_path, "jetson-tx2", clock=clock)
    folder = "sys/bus/i2c/drivers/ina3221x/0-0041/iio:device1"
    assert [kernel.read(f"{folder}/rail_name_{n}") for n in range(3)] == ["VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"]
    volts, amps, watts = (kernel.read_int(f"{folder}/in_{what}0_input") for what in ("voltage", "current", "power"))
    assert watts == volts * amps // 1000 > 1000
    assert kernel.read(f"{folder}/crit_current_limit_0") == "32760 ma"
    assert kernel.read("sys/bus/i2c/drivers/ina3221x/0-0041/iio_device/rail_name_0") == "VDD_IN"
    assert len(kernel.glob(f"{folder}/in_power*_input")) == 6  # three of them are triggers


def test_thor_has_a_second_chip_in_microwatts(tmp_path, clock):
    kernel = make_board(tmp_path, "jetson-agx-thor", clock=clock)
    (folder,) = hwmon(kernel, "ina238")
    volts, amps, power = (kernel.read_int(f"{folder}/{name}_input") for name in ("in1", "curr1", "power1"))
    assert power == volts * amps > 1_000_000


def test_hwmon_numbers_change_between_boots(tmp_path):
    kernel = make_board(tmp_path, ORIN, kernel="5.10", shuffle_hwmon=True, seed=1)
    boots = []
    for _ in range(6):
        boots.append((tuple(hwmon(kernel, "ina3221")), tuple(hwmon(kernel, "soctherm_oc"))))
        assert kernel.read(f"{chip(kernel, '1-0040')}/in1_label") == "VDD_GPU_SOC"
        assert int(kernel.read(f"{chip(kernel, '1-0040')}/in1_input")) > 0
        kernel.power_cut()
    assert len(set(boots)) > 1


@pytest.mark.parametrize(("name", "release"), RELEASES)
def test_zones_have_the_names_of_the_release(as_released, name, release):
    kernel = as_released(name, release)
    folders = kernel.glob("sys/class/thermal/thermal_zone*")
    (group,) = [group for group in load_board(name).thermal if release in group.kernels]
    assert tuple(kernel.read(f"{folder}/type") for folder in folders) == group.zones
    warm = []
    for folder, zone in zip(folders, group.zones, strict=True):
        if zone in group.gated:
            assert error_of(kernel.read, f"{folder}/temp") == "EAGAIN"
        elif zone == "PMIC-Die":
            assert kernel.read(f"{folder}/temp") == "100000"
        else:
            warm.append((zone, kernel.read_int(f"{folder}/temp")))
    assert all(44_000 < value < 46_000 for _, value in warm)
    if "tj-thermal" in group.zones:
        assert dict(warm)["tj-thermal"] == max(value for _, value in warm)


def test_zones_follow_what_a_test_asks_for(tmp_path, clock):
    kernel = make_board(tmp_path, ORIN, kernel="5.15", clock=clock, gated_zones=("gpu-thermal",))
    temperatures = dict(
        zip(
            (kernel.read(path) for path in kernel.glob("sys/class/thermal/thermal_zone*/type")),
            kernel.glob("sys/class/thermal/thermal_zone*/temp"),
            strict=True,
        )
    )
    assert error_of(kernel.read, temperatures["gpu-thermal"]) == "EAGAIN"
    kernel.warm(80)
    assert 79_000 < kernel.read_int(temperatures["cv0-thermal"]) < 81_000


def test_over_current_is_counted_and_only_there(tmp_path, clock):
    kernel = make_board(tmp_path, ORIN, clock=clock)
    (folder,) = hwmon(kernel, "soctherm_oc")
    before = kernel.settings()
    kernel.over_current(3, 12)
    kernel.over_current(1)
    assert [kernel.read(f"{folder}/oc{n}_event_cnt") for n in (1, 2, 3)] == ["1", "0", "12"]
    assert kernel.settings() == before
    kernel.power_cut()
    assert kernel.read(f"{folder}/oc3_event_cnt") == "0"
    user = FakeKernel(kernel.root, user="user")
    assert user.read(f"{folder}/oc3_event_cnt") == "0"
    assert error_of(kernel.write, f"{folder}/oc3_event_cnt", "0") == "EACCES"


def test_cooling_devices_say_what_they_are(tmp_path):
    thor = make_board(tmp_path / "thor", "jetson-agx-thor")
    types = [thor.read(path) for path in thor.glob("sys/class/thermal/cooling_device*/type")]
    assert "soc012-throttle-alert" in types
    number = types.index("devfreq-gpu-gpc-0")
    assert thor.read(f"sys/class/thermal/cooling_device{number}/max_state") == "169"
    assert thor.read(f"sys/class/thermal/cooling_device{number}/cur_state") == "0"


def test_the_fan_by_release(tmp_path):
    old, new = (make_board(tmp_path / kernel, "jetson-agx-xavier", kernel=kernel) for kernel in ("4.9", "5.10"))
    assert old.read("sys/devices/pwm-fan/target_pwm") == "80"
    assert hwmon(old, "pwmfan") == []
    (folder,) = hwmon(new, "pwmfan")
    assert new.read(f"{folder}/pwm1") == "88"
    (tach,) = hwmon(new, "pwm_tach")
    assert new.read_int(f"{tach}/rpm") > 0


def test_an_older_release_may_keep_power_for_root(tmp_path):
    kernel = make_board(tmp_path, "jetson-nano", power_root_only=True)
    path = "sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0/in_power0_input"
    assert kernel.read_int(path) > 0
    assert error_of(FakeKernel(kernel.root, user="user").read, path) == "EACCES"


def test_an_older_release_says_minus_256_degrees_of_a_block_that_is_off(tmp_path):
    kernel = make_board(tmp_path, "jetson-nano", gated_zones=("GPU-therm",))
    (folder,) = [f for f in kernel.glob("sys/class/thermal/thermal_zone*") if kernel.read(f"{f}/type") == "GPU-therm"]
    assert kernel.read(f"{folder}/temp") == "-256000"


def test_thors_gpu_draws_nothing_while_it_sleeps(tmp_path, clock):
    kernel = make_board(tmp_path, "jetson-agx-thor", clock=clock)
    path = f"{chip(kernel, '2-0040')}/curr1_input"
    assert kernel.read(path) == "0"
    kernel.work(gpu=0.5)
    clock.sleep_s(0.5)
    assert kernel.read_int(path) > 0


def test_the_trip_point_of_thor_is_the_published_one(tmp_path):
    thor, orin = make_board(tmp_path / "thor", "jetson-agx-thor"), make_board(tmp_path / "orin", ORIN)
    zone = "sys/class/thermal/thermal_zone0"
    assert [k.read(f"{zone}/trip_point_1_type") for k in (thor, orin)] == ["critical", "critical"]
    assert [k.read(f"{zone}/trip_point_1_temp") for k in (thor, orin)] == ["114500", "104500"]

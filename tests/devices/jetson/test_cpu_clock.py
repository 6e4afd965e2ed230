"""The CPU clock: all clusters pinned together, in an order no kernel refuses, clusters that are off left as found."""

import errno
import json

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson.cpu import PATIENCE_S, find_cores, online_file, parse_ranges
from edgetune.errors import DeviceError
from edgetune.testing.fake_files import KernelFiles, Killed
from fakes.guardian_calls import apply_line, guard, request_line

FOLDER = "sys/devices/system/cpu/cpufreq"
OFFLINE = ["ebusy", "missing", "readable"]
REONLINE = ["boot", "kept"]


def test_both_limits_are_written_so_that_no_forgotten_request_comes_back(bench):
    at = bench("jetson-orin-nano-8gb", kernel="5.15")
    policy = f"{FOLDER}/policy0"
    at.put(f"{policy}/scaling_min_freq", 1190400)
    at.put(f"{policy}/scaling_max_freq", 729600)  # the request for 1190.4 stays, and is hidden
    assert at.kernel.read(f"{policy}/scaling_min_freq") == "729600"
    found = at.control.snapshot()
    at.control.apply(Mode(cpu_mhz=806.4), found)
    at.control.apply(Mode(cpu_mhz=1510.4), found)
    assert at.control.read().cpu_mhz == 1510.4
    assert at.kernel.hidden("policy0.min") == "1510400"


def test_clusters_pinned_apart_are_no_clock(bench):
    at = bench()
    for end in ("max", "min"):
        at.put(f"{FOLDER}/policy0/scaling_{end}_freq", 729600)
        at.put(f"{FOLDER}/policy4/scaling_{end}_freq", 806400)
    assert at.control.read().cpu_mhz is None


def test_a_clock_that_over_current_holds_back_is_read_as_it_is_and_a_slight_event_is_none(bench):
    at = bench("jetson-orin-nano-8gb")
    found = at.control.snapshot()
    at.control.apply(Mode(cpu_mhz=1344.0), found)
    at.kernel.throttle(True)
    assert at.control.read().cpu_mhz == 672
    assert at.control.apply(Mode(cpu_mhz=1344.0), found).cpu_mhz == 1344  # it is set, which is all that can be done
    at.kernel.deny_reading("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_cur_freq")
    assert at.control.read().cpu_mhz == 672  # of the other cluster
    slight = at.open(sleep=lambda _: at.kernel.throttle(False))
    at.kernel.throttle(True)
    assert slight.read().cpu_mhz == 1344


def test_only_clocks_that_all_clusters_have_are_on_offer(bench):
    at = bench()
    at.kernel.put(f"{FOLDER}/policy4/scaling_available_frequencies", "115200 729600 1510400 1728000")
    assert at.open().space.knobs["cpu_mhz"] == (115.2, 729.6, 1510.4)
    at.kernel.put(f"{FOLDER}/policy4/scaling_available_frequencies", "100000")
    space = at.open().space
    assert "clusters list no clock that all of them have" in space.fixed["cpu_mhz"]


def test_a_running_cluster_that_hides_its_limits_stops_the_snapshot(bench):
    at = bench()
    at.kernel.deny_reading(f"{FOLDER}/policy4/scaling_max_freq", errno.EBUSY)
    with pytest.raises(DeviceError, match="policy4/scaling_max_freq cannot be read: the device is busy"):
        at.control.snapshot()
    at.kernel.deny_reading(f"{FOLDER}/policy4/related_cpus", errno.EBUSY)
    with pytest.raises(DeviceError, match=r"no policy .* lists core 4, which is online"):
        at.control.snapshot()
    assert at.kernel.writes == []


def test_a_cluster_that_is_off_is_left_alone_while_it_is_not_needed(bench):
    at = bench("jetson-orin-nano-8gb", mode="7W")
    found = at.control.snapshot()
    at.control.apply(Mode(cpu_cores=2, cpu_mhz=729.6), found)
    assert at.control.restore(found) == []
    assert not [path for path, _ in at.kernel.writes if "policy4" in path or "cpu4" in path or "cpu5" in path]
    assert at.differences() == {}


@pytest.mark.parametrize("offline", OFFLINE)
@pytest.mark.parametrize("reonline", REONLINE)
def test_a_cluster_that_was_off_is_used_and_goes_off_as_it_was(bench, offline, reonline):
    at = bench("jetson-orin-nano-8gb", mode="7W", offline_policy=offline, reonline=reonline)
    found = at.control.snapshot()
    for mode in (Mode(cpu_cores=6, cpu_mhz=960.0), Mode(cpu_cores=2, cpu_mhz=806.4), Mode(cpu_cores=5, cpu_mhz=115.2)):
        assert at.control.apply(mode, found) == at.control.read()
        assert at.control.read().knobs() | mode.knobs() == at.control.read().knobs()
    at.put_back(found, at.open())
    at.put_back(found)


def limits_when_woken(at, policy=4):
    """Return what a cluster's limits are once a core of it runs: what its being off hides."""
    at.kernel.write(f"sys/devices/system/cpu/cpu{policy}/online", "1")
    limits = tuple(at.kernel.read(f"{FOLDER}/policy{policy}/scaling_{end}_freq") for end in ("min", "max"))
    at.kernel.write(f"sys/devices/system/cpu/cpu{policy}/online", "0")
    return limits


@pytest.mark.parametrize("offline", OFFLINE)
def test_limits_that_only_a_later_lasting_mode_met_are_put_back_too(bench, offline):
    at = bench("jetson-orin-nano-8gb", mode="7W", offline_policy=offline, reonline="kept")
    root, hidden = at.kernel.root, limits_when_woken(at)
    for knobs in ({"cpu_cores": 6}, {"cpu_cores": 6, "cpu_mhz": 115.2}):  # the first wakes a cluster and leaves it
        outcome = guard(at.open(), root, apply_line(1, **knobs), request_line(2, "keep"))
        assert (outcome.code, [reply["ok"] for reply in outcome.replies]) == (0, [True, True])
    assert guard(at.open(), root, only_restore=True).code == 0
    assert at.differences() == {}
    assert limits_when_woken(at) == hidden


@pytest.mark.parametrize(
    ("offline", "reonline"),
    [
        ("ebusy", "kept"),
        ("missing", "boot"),
        pytest.param("readable", "kept", marks=pytest.mark.slow),
        pytest.param("ebusy", "boot", marks=pytest.mark.slow),
    ],
)
def test_killed_at_any_write_a_cluster_that_was_off_is_as_it_was(bench, offline, reonline):
    at = bench("jetson-orin-nano-8gb", mode="7W", offline_policy=offline, reonline=reonline)
    hidden = limits_when_woken(at)
    journal = {}

    def note(snapshot):
        journal["text"] = json.dumps(snapshot)

    def run(stop=None):
        control = at.open()
        control.learnt = note
        found = control.snapshot()
        note(found)
        if stop is not None:
            at.kernel.fail_at(stop, "kill-after")
        control.apply(Mode(cpu_cores=6, cpu_mhz=960.0), found)
        control.apply(Mode(cpu_cores=3, cpu_mhz=806.4), found)
        control.restore(found)

    before = len(at.kernel.writes)
    run()
    writes = len(at.kernel.writes) - before
    assert writes > 10
    for number in range(1, writes + 1):
        with pytest.raises(Killed):
            run(stop=number)
        at.kernel.revive()
        assert at.open().restore(json.loads(journal["text"])) == []
        assert at.differences() == {}
        assert limits_when_woken(at) == hidden


def test_a_journal_without_what_was_learnt_puts_everything_else_back(bench):
    at = bench("jetson-orin-nano-8gb", mode="7W")
    found = at.control.snapshot()
    journal = dict(found)
    at.control.apply(Mode(cpu_cores=6, cpu_mhz=960.0, gpu_mhz=306.0), found)
    assert at.open().restore(journal) == []
    assert at.kernel.read("sys/devices/system/cpu/online") == "0,1,2,3"


def test_a_woken_cluster_without_the_clock_is_reported(bench):
    at = bench("jetson-orin-nano-8gb", mode="7W")
    at.kernel.put(f"{FOLDER}/policy4/scaling_available_frequencies", "115200 729600")
    found = at.control.snapshot()
    with pytest.raises(DeviceError, match="policy4 has no clock of 806400 kHz"):
        at.control.apply(Mode(cpu_cores=6, cpu_mhz=806.4), found)
    at.put_back(found)


CPU = "sys/devices/system/cpu"


@pytest.mark.parametrize(
    ("text", "numbers"), [("0", (0,)), ("0-3", (0, 1, 2, 3)), ("0-2,5", (0, 1, 2, 5)), ("0 3 4", (0, 3, 4)), ("", ())]
)
def test_lists_of_cores_are_read_as_the_kernel_writes_them(text, numbers):
    assert parse_ranges(text) == numbers


def test_core_0_and_cores_without_a_file_always_run(tmp_path):
    sysfs = KernelFiles(tmp_path)
    sysfs.put(f"{CPU}/present", "0-3")
    for core in (0, 1, 3):
        sysfs.put(online_file(core), 1)
    cores = find_cores(sysfs)
    assert cores.numbers == (0, 1, 2, 3)
    assert cores.switchable == (1, 3)
    assert cores.counts == (2, 3, 4)
    assert online_file(0) not in cores.settable


def test_without_a_list_of_cores_there_is_no_control(tmp_path):
    with pytest.raises(DeviceError, match="present does not list the cores"):
        find_cores(KernelFiles(tmp_path))


def test_cores_go_off_from_the_highest_and_come_from_the_lowest(bench):
    at = bench("jetson-nano")
    found = at.control.snapshot()
    at.control.apply(Mode(cpu_cores=1), found)
    at.control.restore(found)
    assert at.kernel.writes == [
        (online_file(core), value) for value, cores in (("0", (3, 2, 1)), ("1", (1, 2, 3))) for core in cores
    ]


def test_cores_that_ran_when_found_go_before_those_that_were_off(bench):
    at = bench("jetson-tx2", mode="MAXQ")  # its Denver cores 1 and 2 are off
    found = at.control.snapshot()
    for count, running in [(4, "0,3,4,5"), (3, "0,3,4"), (5, "0,1,3,4,5"), (6, "0,1,2,3,4,5"), (1, "0")]:
        at.control.apply(Mode(cpu_cores=count), found)
        assert at.kernel.read(f"{CPU}/online") == running
    at.put_back(found)


def test_a_core_that_does_not_go_off_is_told_after_a_second(bench):
    at = bench("jetson-orin-nano-8gb", stuck_cores=(5,))
    found = at.control.snapshot()
    began = at.clock.now_ns()
    with pytest.raises(DeviceError, match=r"cpu5/online refused 0: the device is busy") as caught:
        at.control.apply(Mode(cpu_cores=2), found)
    assert PATIENCE_S <= (at.clock.now_ns() - began) / 1e9 < 1.5
    assert "another program" in caught.value.hint
    at.put_back(found)


def test_a_core_that_is_busy_for_a_moment_is_asked_again(bench):
    at = bench()
    for write in (1, 2, 3):
        at.kernel.fail_at(write, "EBUSY")
    assert at.control.apply(Mode(cpu_cores=5), at.control.snapshot()).cpu_cores == 5

"""Another nvpmodel mode chosen while edgetune's settings are in place: its limits hold, whoever puts the rest back."""

import contextlib
import json
import random

import pytest

from edgetune.devices.guardian.controls import open_jetson_control
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.nvpmodel import read_nvpmodel
from edgetune.devices.jetson.restore import nvpmodel_in_force
from edgetune.testing.fake_kernel import Killed
from fakes.guardian_calls import apply_line, guard, request_line

GPU = "sys/devices/17000000.ga10b/devfreq/17000000.ga10b"
GPU_LIMIT = f"{GPU}/max_freq"
SLOW = apply_line(1, cpu_cores=1, gpu_mhz=114.75, mem_mhz=665.6)
MAXN, MODE_15W, MODE_50W = "0", "1", "3"
STATUS = "var/lib/nvpmodel/status"


class Board:
    """A fake AGX Orin and guardians of it."""

    def __init__(self, bench, **options):
        self.at = bench("jetson-agx-orin-64gb", kernel="5.10", golden_context=False, **options)
        self.kernel = self.at.kernel

    def guard(self, *lines, beyond_caps=False, **options):
        control = open_jetson_control(self.kernel, beyond_caps=beyond_caps, sleep=self.at.clock.sleep_s)
        return guard(control, self.kernel.root, *lines, **options)

    def kill(self, *lines, write=8):
        self.kernel.fail_at(write, "kill-after")
        with pytest.raises(Killed):
            self.guard(*lines)
        self.kernel.revive()

    def choose(self, mode):
        assert self.kernel.nvpmodel(mode) == 0

    def journals(self):
        return sorted(path.name for path in (self.kernel.root / "var/lib/edgetune").glob("*.json"))


@pytest.fixture
def board(bench):
    return Board(bench)


@pytest.fixture
def chosen(bench):
    """Return the settings of a board on which a mode was chosen, and nothing else was ever done."""

    def settings(other, prepare=lambda kernel: None, **options):
        fresh = Board(bench, **options)
        prepare(fresh.kernel)
        fresh.choose(other)
        return fresh.kernel.settings()

    return settings


def test_a_killed_run_is_not_put_back_above_the_mode_chosen_since(board, chosen):
    board.kill(SLOW)
    assert board.kernel.read(GPU_LIMIT) == "114750000"
    board.choose(MODE_50W)
    unasked = board.guard(request_line(1, "hello"))
    assert board.kernel.read(GPU_LIMIT) == "828750000"
    assert board.kernel.settings() == chosen(MODE_50W)
    assert (
        "it had nvpmodel mode 0 then and has nvpmodel mode 3 now, and the limits of MODE_50W hold"
        in (unasked.replies[0]["recovered"][0])
    )
    assert board.journals() == []


def test_chosen_back_again_everything_goes_back_as_found(board):
    board.kill(SLOW)
    board.choose(MODE_15W)
    board.choose(MAXN)
    assert board.guard(only_restore=True).code == 0
    assert board.at.differences() == {}


def test_a_run_in_progress_sets_no_further_mode_and_ends_within_the_new_one(board, chosen):
    board.kernel.fail_at(8, lambda *_: board.choose(MODE_50W))
    outcome = board.guard(SLOW, apply_line(2, gpu_mhz=1300.5))
    assert not outcome.replies[1]["ok"]
    assert "the configuration of jetson changed during the run" in outcome.replies[1]["message"]
    assert (outcome.code, board.kernel.settings()) == (0, chosen(MODE_50W))
    assert outcome.errors.startswith("note: jetson was put back, but not to all that was found: it had nvpmodel mode 0")


def lock_memory(kernel):
    """Hold the memory at its highest rate, as jetson_clocks does."""
    emc = "sys/kernel/debug/bpmp/debug/clk/emc"
    kernel.write(f"{emc}/mrq_rate_locked", "1")
    kernel.write(f"{emc}/rate", "3199000000")


def test_a_memory_rate_locked_before_is_locked_again_but_not_above_the_new_cap(board, chosen):
    lock_memory(board.kernel)
    board.kill(SLOW)
    board.choose(MODE_15W)
    board.kernel.forget_writes()
    assert board.guard(only_restore=True).code == 0
    assert board.kernel.settings() == chosen(MODE_15W, prepare=lock_memory)
    caps = [value for path, value in board.kernel.writes if path.endswith("emc_iso_cap")]
    assert all(0 < int(value) <= 2_133_000_000 for value in caps), "raised, if only for a moment"


@pytest.mark.parametrize(("written", "kept"), [(408000000, "420750000"), (1300500000, "624750000")])
def test_a_mode_whose_file_was_changed_bounds_what_goes_back_and_lifts_nothing(board, written, kept):
    board.at.put(GPU_LIMIT, 624750000)
    board.kill(SLOW)
    conf = board.kernel.root / "etc/nvpmodel.conf"
    conf.write_text(conf.read_text().replace("GPU MAX_FREQ -1", f"GPU MAX_FREQ {written}"))
    assert board.guard(only_restore=True).code == 0
    assert board.kernel.read(GPU_LIMIT) == kept, "the nearest clock of the table, or the user's own limit"


@pytest.mark.parametrize("how", ["status", "conf"])
def test_where_nothing_tells_the_mode_no_limit_is_raised_and_the_hint_leads_on(board, chosen, how):
    board.kill(SLOW)
    (board.kernel.root / STATUS).unlink()
    if how == "conf":
        for path in ("etc/nvpmodel.conf", "var/lib/nvpmodel/conf_file_path"):
            (board.kernel.root / path).unlink()
    refused = board.guard()
    assert refused.code == 6
    error, hint = refused.errors.splitlines()
    assert "max_freq stays 114750000, was 1300500000" in error
    assert "nothing tells what it has now" in error
    assert board.kernel.read(GPU_LIMIT) == "114750000"
    assert "`sudo nvpmodel -m NUMBER`, then run `edgetune device restore jetson`" in hint
    if how == "status":
        board.choose(MODE_50W)
        assert board.guard(only_restore=True).code == 0
        assert board.kernel.settings() == chosen(MODE_50W)
    else:
        (board.kernel.root / STATUS).write_text("pmode:0000")
        board.kernel.power_cut()
        (board.kernel.root / STATUS).unlink()
        assert board.guard(only_restore=True).code == 0, "the restart of the hint's second half"
    assert board.journals() == []


def test_noted_without_a_mode_nothing_goes_above_the_limits_of_the_one_in_force(board, chosen):
    noted = (board.kernel.root / STATUS).read_text()
    (board.kernel.root / STATUS).unlink()
    board.kill(SLOW)
    (board.kernel.root / STATUS).write_text(noted)
    board.choose(MODE_50W)
    assert board.guard(only_restore=True).code == 0
    assert board.kernel.read(GPU_LIMIT) == "828750000"
    assert board.kernel.settings() == chosen(MODE_50W)


def test_a_journal_of_an_earlier_edgetune_named_the_mode_alone(board):
    board.kill(SLOW)
    path = board.kernel.root / "var/lib/edgetune/jetson.run.json"
    from edgetune.devices.guardian.journal import Journals

    journals = Journals("jetson", board.kernel.root)
    entry = journals.read("run")
    assert entry.configuration.startswith("nvpmodel mode 0, nvpmodel_p3701_0000.conf ")
    journals.write(entry, configuration="nvpmodel mode 0")
    assert json.loads(path.read_text())["configuration"] == "nvpmodel mode 0"
    assert board.guard(only_restore=True).code == 0
    assert board.at.differences() == {}


@pytest.mark.parametrize("beyond_caps", [False, True])
@pytest.mark.parametrize("mode", [MAXN, MODE_50W])
def test_clusters_that_the_first_mode_left_off_get_the_limits_of_the_new_one(bench, chosen, mode, beyond_caps):
    options = {"mode": "MODE_15W", "offline_policy": "ebusy", "reonline": "boot"}
    board = Board(bench, **options)
    board.kernel.fail_at(9, lambda *_: board.choose(mode))
    assert board.guard(SLOW, beyond_caps=beyond_caps).code == 0
    assert board.kernel.settings() == chosen(mode, **options)


def test_a_mode_that_was_only_saved_is_not_the_one_in_force(board):
    (board.kernel.root / STATUS).write_text("pmode:0001\n")
    found = nvpmodel_in_force(board.kernel)
    assert (found.active, found.active_model) == (None, None)
    assert "the limits are not those of MODE_15W, which nvpmodel saved" in found.notes[-1]
    space = open_jetson_control(board.kernel).space
    assert (space.knobs["cpu_cores"][-1], space.knobs["gpu_mhz"][-1]) == (12, 1300.5)


@pytest.mark.parametrize("kept", [True, False])
def test_a_mode_that_is_only_saved_meanwhile_changes_nothing_of_what_goes_back(board, kept):
    def save():
        (board.kernel.root / STATUS).write_text("pmode:0001\n")

    if kept:
        board.guard(SLOW, request_line(2, "keep"))
        save()
        outcome = board.guard(request_line(1, "undo"))
        assert "put back as it was found" in outcome.replies[0]["recovered"][0]
    else:
        control = open_jetson_control(board.kernel, sleep=board.at.clock.sleep_s)
        read = control.read
        control.read = lambda **how: (how or save(), read(**how))[
            1
        ]  # a request has no arguments, a mode that is set has
        outcome = guard(control, board.kernel.root, SLOW, request_line(2, "read"))
        assert all(reply["ok"] for reply in outcome.replies)
    assert (outcome.code, outcome.errors, board.at.differences(), board.journals()) == (0, "", {}, [])


def test_while_a_mode_of_edgetune_is_in_place_the_power_mode_is_still_known(board):
    board.choose(MODE_50W)
    before = open_jetson_control(board.kernel).space
    board.guard(SLOW, request_line(2, "keep"))
    assert open_jetson_control(board.kernel).space == before


@pytest.mark.parametrize("name", board_names())
def test_every_mode_that_was_set_is_known_on_every_board_and_kernel(bench, name):
    for release in load_board(name).kernels:
        kernel = bench(name, kernel=release, golden_context=False).kernel
        modes = {model.id: model.name for model in read_nvpmodel(kernel).config.models}
        for number, mode in modes.items():
            assert kernel.nvpmodel(str(number)) == 0
            found = nvpmodel_in_force(kernel)
            assert found.active_model is not None, (release, found.notes)
            assert found.active_model.name == mode


CLUSTERS = ("jetson-agx-orin-64gb", "jetson-agx-xavier", "jetson-tx2", "jetson-xavier-nx")


SEQUENCES = {
    "a mode chosen again": ("jetson-agx-orin-64gb", "5.15", ["1", "kill", "2", "1"]),
    "a mode chosen again after one was kept": ("jetson-xavier-nx", "4.9", ["6", "keep", "4", "keep", "6"]),
    "a second one kept under another mode": ("jetson-agx-xavier", "4.9", ["4", "keep", "0", "keep", "1", "2"]),
}
"""Board, kernel, and numbers of modes for nvpmodel among runs of edgetune; the last mode leaves out a cluster."""


@pytest.mark.parametrize("policy", ["ebusy", "missing", "readable"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_cluster_that_is_off_has_the_cap_that_nvpmodel_gave_it_last(bench, name, policy):
    board, kernel, steps = SEQUENCES[name]
    options = {"kernel": kernel, "offline_policy": policy, "reonline": "kept", "golden_context": False}
    ours, other = (bench(board, **options) for _ in range(2))
    do(steps, random.Random(1), ours, other.kernel)
    assert ours.kernel.settings() == other.kernel.settings()
    assert limits_when_on(ours.kernel) == limits_when_on(other.kernel)


@pytest.mark.parametrize("seed", [0, 1])
def test_whatever_happens_the_limits_are_those_of_nvpmodel_alone_clusters_that_are_off_included(bench, seed):
    """Random sequences of nvpmodel, modes kept, runs, kills and a restore; the same modes chosen on another board."""
    rng = random.Random(seed)
    for _ in range(6):
        name, policy, reonline = rng.choice(CLUSTERS), rng.choice(("ebusy", "missing", "readable")), "kept"
        options = {"kernel": rng.choice(list(load_board(name).kernels)), "offline_policy": policy, "reonline": reonline}
        ours, other = (bench(name, golden_context=False, **options) for _ in range(2))
        modes = [str(model.id) for model in ours.kernel.board.presets.modes]
        steps = [rng.choice(modes) if step == "nvpmodel" else step for step in rng.choices(STEPS, k=7)]
        steps = [rng.choice(modes), *steps]
        done = name, options, steps, do(steps, rng, ours, other.kernel)
        assert ours.kernel.settings() == other.kernel.settings(), done
        assert limits_when_on(ours.kernel) == limits_when_on(other.kernel), done


STEPS = ("nvpmodel", "nvpmodel", "nvpmodel", "keep", "keep", "run", "kill")


def do(steps, rng, at, other):
    """Do the steps to a board, to the other only what nvpmodel does; then restore everything and return what was set.

    Args:
        steps: Numbers of modes for nvpmodel, and ``run``, ``keep`` (a run whose mode stays) or ``kill``.
    """
    keep, undo, greet = (lambda _, word=word: request_line(9, word) for word in ("keep", "undo", "hello"))
    done = []

    def guarded(*lines):
        control = open_jetson_control(at.kernel, sleep=at.clock.sleep_s)
        knobs = {knob: rng.choice(values) for knob, values in control.space.knobs.items() if rng.random() < 0.7}
        done.append(knobs)
        with contextlib.suppress(Killed):
            assert guard(control, at.kernel.root, *(line(knobs) for line in lines)).code == 0

    for step in steps:
        if step.isdecimal():
            assert at.kernel.nvpmodel(step) == other.nvpmodel(step) == 0
            continue
        if step == "kill":
            at.kernel.fail_at(rng.randrange(1, 14), "kill-after")
        guarded(lambda knobs: apply_line(1, **(knobs or {"cpu_cores": 1})), *[keep] * (step == "keep"))
        at.kernel.revive()
        at.kernel.forget_faults()
    guarded(greet, undo)
    return done


def limits_when_on(kernel):
    for core in kernel.board.catalogue.cpus[1:]:
        kernel.write(f"sys/devices/system/cpu/cpu{core}/online", "1")
    folders = (f"sys/devices/system/cpu/cpufreq/{cluster.policy}" for cluster in kernel.board.catalogue.clusters)
    return [[kernel.read(f"{folder}/scaling_{end}_freq") for end in ("min", "max")] for folder in folders]

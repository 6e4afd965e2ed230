"""What is told of every board and kernel of the catalogue, and what stays unknown on a board that tells little."""

import hashlib
import json

import pytest

from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson import knobs
from edgetune.devices.jetson.catalog import board_names, load_board
from edgetune.devices.jetson.detect import detect_jetson
from edgetune.devices.jetson.device import board_conditions
from edgetune.devices.jetson.knobs import caps_of, find_knobs, presets_of
from edgetune.devices.jetson.nvpmodel import present_masks, read_nvpmodel
from edgetune.testing.fake_board import make_board
from edgetune.testing.fake_files import KernelFiles
from edgetune.testing.fake_jetson import FakeClock, open_fake_jetson
from edgetune.workflows.device.doctor import examine_board

JETPACKS = {"4.9": 4, "5.10": 5, "5.15": 6, "6.8": 7}
BOARDS = [
    (name, kernel, needs_super)
    for name in board_names()
    for kernel in load_board(name).kernels
    for needs_super in sorted({file.needs_super for file in load_board(name).presets})
    if kernel in ("5.15", "6.8") or not needs_super
]


def tables_of(board):
    """The values that the fake board offers, as a control reads them."""
    clocks = {"cpu_mhz": board.cpu_khz, "gpu_mhz": board.gpu_khz, "mem_mhz": board.emc_khz}
    cores = tuple(float(n + 1) for n in range(len(board.catalogue.cpus)))
    return {"cpu_cores": cores} | {knob: tuple(khz / 1000 for khz in table) for knob, table in clocks.items()}


def expected(preset, board):
    """What the published preset means in the board's tables, worked out from the catalogue alone."""
    tables = tables_of(board)

    def nearest(khz, table):
        return table[-1] if khz is None else min(table, key=lambda mhz: abs(mhz - khz / 1000))

    running = [c.name for c in board.catalogue.clusters if set(c.cpus) & set(preset.cores)]
    limits = [preset.cpu_khz[name][1] for name in running if name in preset.cpu_khz]
    mem, limit = tables["mem_mhz"], preset.emc_max_khz
    return Mode(
        cpu_cores=len({0, *preset.cores}),
        cpu_mhz=min((nearest(khz, tables["cpu_mhz"]) for khz in limits), default=None),
        gpu_mhz=nearest(preset.gpu_khz[1], tables["gpu_mhz"]),
        mem_mhz=mem[-1] if limit is None else max((m for m in mem if m * 1000 <= limit), default=mem[0]),
    )


@pytest.mark.parametrize(("name", "kernel", "needs_super"), BOARDS)
def test_every_board_of_the_catalogue_says_what_it_is_and_may(tmp_path, name, kernel, needs_super):
    sysfs = make_board(tmp_path, name, kernel=kernel, super_dt=needs_super, clock=FakeClock())
    board, catalogue = sysfs.board, sysfs.board.catalogue
    found = detect_jetson(sysfs)
    assert (found.soc, found.module, found.kernel_generation) == (board.soc, catalogue.module_ids[0], kernel)
    assert (found.jetpack, found.l4t, found.super_variant) == (JETPACKS[kernel], board.l4t, needs_super)

    nvpmodel = read_nvpmodel(sysfs)
    assert nvpmodel.active_model is not None
    assert (nvpmodel.active_model.name, nvpmodel.notes) == (board.mode, ())
    assert nvpmodel.config.default == board.presets.default_id

    tables = tables_of(board)
    presets = presets_of(nvpmodel, tables, present_masks(sysfs, nvpmodel))
    assert presets.modes == {preset.name: expected(preset, board) for preset in board.presets.modes}
    caps = caps_of(nvpmodel, tables)
    assert Mode.of({knob: cap for knob, cap in caps.items() if cap is not None}) == presets.modes[board.mode]

    now = next(preset for preset in board.presets.modes if preset.name == board.mode)
    files = ("tpc_pg_mask", "fbp_pg_mask")  # Thor's gpu_pg_mask is in no file of the fake board
    other = {p.name for p in board.presets.modes if any(p.masks.get(f, 0) != now.masks.get(f, 0) for f in files)}
    assert set(presets.needs_reboot) == other


def test_the_conditions_of_a_board(tmp_path):
    sysfs = make_board(tmp_path, kernel="5.15", mode="MODE_15W", clock=FakeClock())
    found = board_conditions(sysfs, find_knobs(sysfs))
    assert json.loads(json.dumps(found)) == found  # it goes into the head of artifacts
    assert (found["board"], found["module"], found["soc"]) == (
        "NVIDIA Jetson AGX Orin Developer Kit",
        "p3701-0000",
        "tegra234",
    )
    assert (found["jetpack"], found["l4t"], found["kernel"]) == (6, sysfs.board.l4t, "5.15.148-tegra")
    conf = (tmp_path / "etc/nvpmodel/nvpmodel_p3701_0000.conf").read_bytes()
    assert found["nvpmodel"] == {
        "mode": "MODE_15W",
        "id": 1,
        "file": "/etc/nvpmodel/nvpmodel_p3701_0000.conf",
        "sha256": hashlib.sha256(conf).hexdigest(),
        "notes": [],
    }
    assert found["caps"] == {"cpu_cores": 4.0, "cpu_mhz": 1113.6, "gpu_mhz": 408.0, "mem_mhz": 2133.0}
    assert found["governors"] == {"cpu": "schedutil", "gpu": "nvhost_podgov"}
    assert found["fan"]["pwm"] == 88
    assert found["python"]
    assert {"onnxruntime", "torch"} <= set(found)
    assert (found["container"], found["board_notes"]) == (None, [])


def test_what_a_board_does_not_tell_is_none_and_not_made_up(tmp_path):
    sysfs = KernelFiles(tmp_path)
    sysfs.put("proc/device-tree/compatible", "nvidia,tegra234\0")
    found = board_conditions(sysfs)
    known = {"board", "soc", "super_variant", "nvpmodel", "governors", "board_notes", "python", "onnxruntime", "torch"}
    assert {name for name, value in found.items() if value is not None} <= known
    assert found["governors"] == {"cpu": None, "gpu": None}
    assert [found["nvpmodel"][fact] for fact in ("mode", "id", "file", "sha256")] == [None] * 4
    assert "there is no /etc/nvpmodel.conf" in found["nvpmodel"]["notes"][0]
    assert found["board_notes"]


def test_the_knobs_of_a_board_are_found_once(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(knobs, "find_gpu", lambda sysfs, find=knobs.find_gpu: found.append(sysfs) or find(sysfs))
    make_board(tmp_path, clock=FakeClock())
    open_fake_jetson(tmp_path)
    assert len(found) == 1
    assert examine_board(tmp_path) is not None
    assert len(found) == 2

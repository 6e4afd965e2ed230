"""The fake board answers as the kernels of JetPack 4 to 7: what they refuse, clamp, and ignore without an error.

The catalogue: every board complete and consistent, every figure with a source and a grade.
"""

import errno
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import resources

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.devices.jetson import catalog
from edgetune.errors import InputError
from edgetune.testing.fake_board import make_board

ORIN, THOR, TX2 = "jetson-agx-orin-64gb", "jetson-agx-thor", "jetson-tx2"
CPU = "sys/devices/system/cpu"
POLICY = f"{CPU}/cpufreq/policy0"
ISO_CAP, CLK_CAP = "sys/kernel/nvpmodel_emc_cap/emc_iso_cap", "sys/kernel/nvpmodel_clk_cap/emc"


def error_of(call, *arguments):
    with pytest.raises(OSError) as caught:  # noqa: PT011
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def limits(kernel, prefix=f"{POLICY}/scaling_"):
    return tuple(int(kernel.read(f"{prefix}{end}_freq")) for end in ("min", "max"))


@pytest.fixture(scope="module")
def two_kernels(tmp_path_factory):
    folders = (tmp_path_factory.mktemp(name) for name in ("old", "new"))
    return [make_board(next(folders), TX2), make_board(next(folders), ORIN, kernel="5.15")]


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


BOARDS = catalog.board_names()
GRADES = {"A", "B", "C", "D"}


@cache
def document_of(name):
    return yaml.safe_load((resources.files("edgetune.devices") / "catalog" / f"{name}.yaml").read_text())


def blocks(value):
    """Every mapping in a document."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from blocks(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from blocks(inner)


def test_the_boards_are_those_of_jetpack_4_to_7():
    assert [name.removeprefix("jetson-") for name in BOARDS] == [
        "agx-orin-32gb", "agx-orin-64gb", "agx-thor", "agx-xavier", "nano", "orin-nano-4gb", "orin-nano-8gb",
        "orin-nx-16gb", "orin-nx-8gb", "tx2", "tx2-nx", "xavier-nx",
    ]  # fmt: skip


@pytest.mark.parametrize("name", BOARDS)
def test_figures_have_source_and_grade(name):
    document = document_of(name)
    graded = [block for block in blocks(document) if "khz" in block or "zones" in block or "modes" in block]
    graded += [document["power"], document["gpu"]]
    assert graded
    for block in graded:
        assert block["grade"] in GRADES
        assert len(block["source"]) > 8
    assert document["cpu"]["clusters_grade"] in GRADES
    assert document["cpu"]["clusters_source"]


READ = {field.name for kind in vars(catalog).values() if is_dataclass(kind) for field in fields(kind)} | {
    "cpu",
    "gpu",
    "emc",
    "power",
    "tables",
    "interface",
    "sum",
}
DOCUMENTED = {
    "source", "grade", "label", "governor", "notes", "jetpack", "cores", "idle_states", "idle_states_grade", "devfreq",
    "in_chip_sum", "clusters_grade", "clusters_source", "models_grade", "sum_note", "sum_grade", "critical_mc",
}  # fmt: skip


@pytest.mark.parametrize("name", BOARDS)
def test_nothing_in_a_file_goes_unread(name):
    """A key that is misspelt would be a figure that nobody sees; keys of clocks by cluster and of masks are names."""
    document = document_of(name)
    named = {key for preset in blocks(document) for part in ("cpu_khz", "masks") for key in preset.get(part) or ()}
    assert {key for block in blocks(document) for key in block} <= READ | DOCUMENTED | named | {"warn", "crit"}


@pytest.mark.parametrize("name", BOARDS)
def test_tables_ascend_and_presets_fit_them(name):
    board = catalog.load_board(name)
    for table in (*board.cpu, *board.gpu, *board.emc):
        if table.khz is not None:
            assert list(table.khz) == sorted(set(table.khz))
            assert table.ends_khz == (table.khz[0], table.khz[-1])
            assert table.steps == len(table.khz)
    assert board.cpus == tuple(range(len(board.cpus)))
    assert document_of(name)["cpu"]["cores"] == len(board.cpus)
    clusters = {cluster.name for cluster in board.clusters}
    for file in board.presets:
        assert file.default_id in [preset.id for preset in file.modes]
        assert len({preset.id for preset in file.modes}) == len(file.modes)
        for preset in file.modes:
            assert set(preset.cores) <= set(board.cpus)
            assert 0 in preset.cores
            assert set(preset.cpu_khz) <= clusters
            limits = (*preset.cpu_khz.values(), preset.gpu_khz)
            assert all(low is None or high is None or low <= high for low, high in limits)


@pytest.mark.parametrize("name", BOARDS)
def test_the_total_is_a_rail_or_a_sum_of_rails(name):
    rails = catalog.load_board(name).rails
    names = {rail.name for chip in rails.chips for rail in chip.rails}
    if rails.total is None:
        assert set(rails.total_sum) <= names
        assert document_of(name)["power"]["sum_note"]
        assert document_of(name)["power"]["sum_grade"] in GRADES
    else:
        assert rails.total in names


@pytest.mark.parametrize("name", BOARDS)
def test_every_kernel_of_a_board_has_its_zones(name):
    board = catalog.load_board(name)
    for kernel in board.kernels:
        (zones,) = [group for group in board.thermal if kernel in group.kernels]
        assert set(zones.gated) <= set(zones.zones)


def test_the_agx_orin_has_two_gpu_tables_and_no_input_rail():
    board = catalog.load_board("jetson-agx-orin-64gb")
    old, new = (table.khz for table in board.gpu)
    assert (len(old), old[0], old[-1]) == (13, 114_750, 1_300_500)
    assert (len(new), new[0], new[-1]) == (11, 306_000, 1_300_500)
    assert len(board.cpu[0].khz) == 29
    assert board.emc[0].khz == (204_000, 665_600, 2_133_000, 3_199_000)
    assert board.rails.total is None


def test_a_board_is_found_by_its_module():
    board = catalog.board_of_module("p3767-0005")
    assert board.name == "jetson-orin-nano-8gb"
    assert catalog.board_of_module("p9999-0000") is None


def test_no_module_belongs_to_two_boards():
    modules = [module for name in BOARDS for module in catalog.load_board(name).module_ids]
    assert len(modules) == len(set(modules))


def test_an_unknown_board_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match="no board 'jetson-tk1'") as caught:
        catalog.load_board("jetson-tk1")
    assert "jetson-nano" in caught.value.hint

from dataclasses import fields

import pytest
import yaml

from benchmarks.twin import dump
from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson import catalog
from edgetune.devices.twin.constants import Constants, list_boards, load_board, load_file, parse
from edgetune.errors import InputError

TWIN, DIGEST = load_board("orin-agx")
DOCUMENT = yaml.safe_load(dump(TWIN))


def document(**changes):
    return yaml.safe_dump({**DOCUMENT, **changes}).encode()


def test_every_constant_has_a_unit_and_a_source():
    assert set(TWIN.constants) == {item.name for item in fields(Constants)}
    for constant in TWIN.constants.values():
        assert constant.unit
        assert constant.source


def test_presets_are_those_of_the_boards_configuration_at_its_own_clocks():
    presets, table = TWIN.space.presets, TWIN.space.knobs["gpu_mhz"]
    for model in catalog.load_board("jetson-agx-orin-64gb").presets[0].modes:
        cap_mhz = (model.gpu_khz[1] or 10**9) / 1e3
        assert presets[model.name].gpu_mhz == min(table, key=lambda mhz: abs(mhz - cap_mhz))
        assert presets[model.name].cpu_cores == len(model.cores)
    assert presets["MODE_50W"] == Mode(12, 1497.6, 828.75, 3199.0)
    for mode in presets.values():
        for knob, value in mode.knobs().items():
            assert value in TWIN.space.knobs[knob]


def test_knob_tables_have_the_steps_of_the_board():
    knobs = TWIN.space.knobs
    assert knobs["cpu_mhz"][:28] == pytest.approx([115.2 + 76.8 * step for step in range(28)])
    assert knobs["gpu_mhz"][:12] == pytest.approx([114.75 + 102 * step for step in range(12)])
    assert (knobs["cpu_mhz"][-1], knobs["gpu_mhz"][-1]) == (2201.6, 1300.5)
    assert knobs["mem_mhz"] == (204.0, 665.6, 2133.0, 3199.0)


def test_what_is_written_reads_back(tmp_path):
    again = parse(dump(TWIN).encode(), "again")
    assert again == TWIN
    path = tmp_path / "mine.yaml"
    path.write_text(dump(TWIN))
    assert load_file(str(path))[0] == TWIN


def without(entry):
    return {name: constant for name, constant in DOCUMENT["constants"].items() if name != entry}


def with_entry(name, **entry):
    return {**DOCUMENT["constants"], name: entry}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff\xfe\x00", "not YAML"),
        (b"a: [1", "line 1: expected"),
        (b"", "the file"),
        (b"[1, 2]", "the file"),
        (document(colour="green"), "colour"),
        (document(tf32_matmul="perhaps"), "tf32_matmul"),
        (document(constants=without("soc_w")), "lacks constants: soc_w"),
        (document(constants=with_entry("soul_w", value=21.0, unit="W", source="x")), "unknown constants: soul_w"),
        (document(constants=with_entry("soc_w", value=float("nan"), unit="W", source="x")), "soc_w.value"),
        (document(constants=with_entry("soc_w", value="high", unit="W", source="x")), "soc_w.value"),
        (document(knobs={**DOCUMENT["knobs"], "gpu_mhz": [2.0, 1.0]}), "knobs.gpu_mhz"),
    ],
)
def test_a_damaged_file_is_one_clear_error(data, says):
    with pytest.raises(InputError) as error:
        parse(data, "mine.yaml")
    assert says in error.value.message
    assert error.value.message.startswith("mine.yaml")
    assert "\n" not in error.value.message + error.value.hint


def test_unknown_boards_and_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="no twin of 'nano'") as error:
        load_board("nano")
    assert "twin:orin-agx" in error.value.hint
    with pytest.raises(InputError, match="cannot read"):
        load_file(str(tmp_path))
    assert list_boards() == ("orin-agx",)

"""Calibration on figures that the twin itself made up, where the right answer is known."""

from dataclasses import fields, replace

import pytest
from twin_tables import LOW, mixed

from benchmarks.twin import REST, ROOFS, AnchorEvaluator, Figure, dump, fit
from edgetune.artifacts.mode import Mode
from edgetune.devices.jetson import catalog
from edgetune.devices.twin.constants import Constants, list_boards, load_board, parse
from edgetune.errors import InputError

TWIN = load_board("orin-agx")[0]


def tables(network, task, batch_size):
    return mixed(task=task, batch_size=batch_size, workload=network)


def figure(quantity, group="time", network="tiny", **options):
    return Figure(
        f"{quantity} {options}", quantity, 1.0, "unit", group, "fitted", "made up", network=network, **options
    )


MODES = ({}, LOW.knobs(), {"gpu_mhz": 318.75}, {"mem_mhz": 665.6}, {"cpu_mhz": 422.4}, {"gpu_mhz": 726.75})
NETWORK = [figure(quantity, mode=dict(mode)) for quantity in ("minibatch_ms", "power_w") for mode in MODES]


def made_up(figures, truth):
    """Return the figures as a board with the constants ``truth`` would have them."""
    values = AnchorEvaluator(figures, tables).values(truth)
    return AnchorEvaluator([replace(f, published=float(v)) for f, v in zip(figures, values, strict=True)], tables)


def test_a_fit_recovers_the_constants_that_made_the_figures():
    truth = replace(TWIN.values, op_launch_us=150.0, soc_w=9.0, conv_pj=8.0)
    free = {name: replace(REST[name], prior=None) for name in ("op_launch_us", "soc_w", "conv_pj")}
    fitted = fit(made_up(NETWORK, truth), TWIN.values, free, [True] * len(NETWORK))
    for name in free:
        assert getattr(fitted, name) == pytest.approx(getattr(truth, name), rel=1e-3)
    assert replace(fitted, **{name: getattr(truth, name) for name in free}) == truth


def test_ranges_hold_the_packaged_constants_and_their_priors():
    for name, bounds in {**ROOFS, **REST}.items():
        assert bounds.low * (1 - 1e-4) <= getattr(TWIN.values, name) <= bounds.high * (1 + 1e-4)
        for belief in (bounds.prior, bounds.neutral, bounds.start):
            assert belief is None or belief in REST or bounds.low <= belief <= bounds.high


TWIN, DIGEST = load_board("orin-agx")


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


def test_what_is_written_reads_back():
    assert parse(dump(TWIN).encode(), "again") == TWIN


def test_unknown_boards_are_refused():
    with pytest.raises(InputError, match="no twin of 'nano'") as error:
        load_board("nano")
    assert "twin:orin-agx" in error.value.hint
    assert list_boards() == ("orin-agx",)

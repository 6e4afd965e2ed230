"""Calibration on figures that the twin itself made up, where the right answer is known."""

from dataclasses import fields, replace

import numpy as np
import pytest
from twin_tables import LOW, mixed

from benchmarks.twin import REST, ROOFS, AnchorEvaluator, ConstantRange, Figure, as_written, dump, fit, fresh
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
ROOF = [
    figure(quantity, "roof", None, mode={"gpu_mhz": gpu_mhz, "mem_mhz": mem_mhz})
    for quantity in ("tflops", "gbs")
    for gpu_mhz in (318.75, 726.75, 1300.5)
    for mem_mhz in (665.6, 2133.0, 3199.0)
]


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


def test_roofs_are_recovered_from_roof_figures():
    truth = replace(TWIN.values, roof_issue_tflops_per_ghz=12.0, dram_efficiency_2133=0.9, copy_issue_gbs_per_ghz=180.0)
    fitted = fit(made_up(ROOF, truth), TWIN.values, ROOFS, [True] * len(ROOF))
    for name in ("roof_issue_tflops_per_ghz", "dram_efficiency_2133", "copy_issue_gbs_per_ghz"):
        assert getattr(fitted, name) == pytest.approx(getattr(truth, name), rel=0.01)


def test_bounds_hold_even_when_figures_ask_for_more():
    bench = made_up(NETWORK, replace(TWIN.values, op_launch_us=900.0))
    fitted = fit(bench, TWIN.values, {"op_launch_us": REST["op_launch_us"]}, [True] * len(NETWORK))
    assert REST["op_launch_us"].high * 0.99 <= fitted.op_launch_us <= REST["op_launch_us"].high


def test_ranges_hold_the_packaged_constants_and_their_priors():
    for name, bounds in {**ROOFS, **REST}.items():
        assert bounds.low * (1 - 1e-4) <= getattr(TWIN.values, name) <= bounds.high * (1 + 1e-4)
        for belief in (bounds.prior, bounds.neutral, bounds.start):
            assert belief is None or belief in REST or bounds.low <= belief <= bounds.high


def test_a_fresh_start_knows_nothing_of_what_was_fitted():
    other = replace(TWIN.values, op_launch_us=150.0, gemm_issue_share=0.2, soc_w=9.0)
    assert fresh(other, REST) == fresh(TWIN.values, REST)
    assert fresh(TWIN.values, REST).roof_norm == TWIN.values.roof_norm
    assert ConstantRange(4.0, 9.0).start == 6.0
    assert ConstantRange(4.0, 9.0, neutral=9.0).start == 6.0  # a neutral value may lie where nothing changes
    assert ConstantRange(4.0, 9.0, prior=5.0, prior_sigma=1.0).start == 5.0
    assert ConstantRange(4.0, 9.0, prior="soc_w", prior_sigma=1.0).start == 6.0


def test_the_unseen_are_neutral_and_may_follow_another_constant():
    bench = made_up(NETWORK, replace(TWIN.values, gemm_issue_share=0.15))
    keep = [True] * len(NETWORK)
    ranges = {
        "gemm_issue_share": replace(REST["gemm_issue_share"], prior=None),
        "rnn_issue_share": REST["rnn_issue_share"],
        "conv_half_channels": REST["conv_half_channels"],
    }
    fitted = fit(bench, TWIN.values, ranges, keep, unseen=("rnn_issue_share", "conv_half_channels"))
    assert fitted.rnn_issue_share == fitted.gemm_issue_share
    assert fitted.conv_half_channels == 30.0


def test_a_prior_may_be_another_constant():
    """Figures that show neither cost a thing to move both towards each other, by how sure each is."""
    bench = made_up([figure("power_w", "none")], TWIN.values)
    ranges = {
        "tf32_pj": ConstantRange(
            1.0, 16.0, prior=3.0, prior_sigma=0.5
        ),  # a network without TF32 products shows neither
        "conv_fp16_speed": ConstantRange(1.0, 16.0, prior="tf32_pj", prior_sigma=0.5),
    }
    fitted = fit(bench, replace(TWIN.values, tf32_pj=8.0, conv_fp16_speed=2.0), ranges, [True])
    assert fitted.tf32_pj == pytest.approx(3.0, rel=1e-3)
    assert fitted.conv_fp16_speed == pytest.approx(3.0, rel=1e-3)


def test_constants_are_as_their_file_will_have_them():
    values = as_written(replace(TWIN.values, soc_w=11.23456789))
    assert values.soc_w == 11.2346
    assert values == replace(TWIN.values, soc_w=11.2346) == as_written(values)


def test_a_bench_asks_for_each_table_once_and_gives_ratios():
    asked = []

    def counting(network, task, batch_size):
        asked.append((network, task, batch_size))
        return tables(network, task, batch_size)

    ratio = figure("minibatch_ms", mode={"gpu_mhz": 318.75}, versus={})
    bench = AnchorEvaluator([*NETWORK, ratio, figure("samples_per_s", precision="fp16")], counting)
    assert asked == [("tiny", "infer", 1)] * 2  # once for each precision
    values = dict(zip([f.name for f in bench.figures], bench.values(TWIN.values), strict=True))
    slow, fast = (values[figure("minibatch_ms", mode=mode).name] for mode in ({"gpu_mhz": 318.75}, {}))
    assert values[ratio.name] == pytest.approx(slow / fast)


def test_a_slope_is_milliseconds_saved_per_watt_spent():
    middle, high = {"gpu_mhz": 726.75}, {"gpu_mhz": 1300.5}
    slope = figure("slope_ms_per_w", mode=high, versus=middle)
    ends = [figure(quantity, mode=mode) for quantity in ("minibatch_ms", "power_w") for mode in (middle, high)]
    value, *parts = AnchorEvaluator([slope, *ends], tables).values(TWIN.values)
    mid_ms, high_ms, mid_w, high_w = parts
    assert value == pytest.approx((mid_ms - high_ms) / (high_w - mid_w))
    assert np.isfinite(value)


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


def test_knob_tables_have_the_steps_of_the_board():
    knobs = TWIN.space.knobs
    assert knobs["cpu_mhz"][:28] == pytest.approx([115.2 + 76.8 * step for step in range(28)])
    assert knobs["gpu_mhz"][:12] == pytest.approx([114.75 + 102 * step for step in range(12)])
    assert (knobs["cpu_mhz"][-1], knobs["gpu_mhz"][-1]) == (2201.6, 1300.5)
    assert knobs["mem_mhz"] == (204.0, 665.6, 2133.0, 3199.0)


def test_what_is_written_reads_back():
    assert parse(dump(TWIN).encode(), "again") == TWIN


def test_unknown_boards_are_refused():
    with pytest.raises(InputError, match="no twin of 'nano'") as error:
        load_board("nano")
    assert "twin:orin-agx" in error.value.hint
    assert list_boards() == ("orin-agx",)

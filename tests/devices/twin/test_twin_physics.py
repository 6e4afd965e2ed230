from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin_tables import LOW, MAXN, mixed, row, table

from benchmarks.twin import microbenchmark
from edgetune.artifacts.mode import Mode
from edgetune.devices.mode_grids import studied_grid
from edgetune.devices.twin.constants import load_board
from edgetune.devices.twin.physics import (
    Clocks,
    cpu_voltage,
    gpu_voltage,
    launch_time,
    norm,
    peak_bandwidth,
    peak_flops,
    predict,
    soft_min,
)
from edgetune.devices.twin.work import work_of

TWIN = load_board("orin-agx")[0]
C = TWIN.values
TOP = Clocks.of([MAXN])
GRID = studied_grid(TWIN.space, 441)
ALL_441 = Clocks.of([Mode(int(a), *rest) for a, *rest in product(*GRID.values())])
SHAPE = tuple(len(values) for values in GRID.values())
positive = st.floats(1e-6, 1e15)


def one(result):
    (value,) = result.tolist()
    return value


@given(positive, positive, st.floats(1, 40))
def test_norms_lie_between_the_greatest_part_and_their_sum_without_overflow(a, b, power):
    value = one(norm(power, np.array([a]), np.array([b])))
    assert max(a, b) * (1 - 1e-9) <= value <= (a + b) * (1 + 1e-9)
    low = one(soft_min(power, np.array([a]), np.array([b])))
    assert min(a, b) / 2 * (1 - 1e-9) <= low <= min(a, b) * (1 + 1e-9)


def test_the_compute_roof_is_written_out():
    issue, feed, p = C.roof_issue_tflops_per_ghz * 1.3005, C.roof_feed_tflops_per_ghz * 3.199, C.roof_norm
    assert one(peak_flops(C, TOP)) == pytest.approx(1e12 * (issue**-p + feed**-p) ** (-1 / p))
    assert one(peak_flops(C, TOP, "fp16")) == pytest.approx(2.245 * one(peak_flops(C, TOP)))


def test_the_bandwidth_roof_is_written_out():
    dram = 1 / (1 / (C.dram_efficiency_3199 * 64 * 3.199) + C.dram_latency_ps_ghz_per_byte * 1e-3 / 1.3005)
    assert one(peak_bandwidth(C, TOP)) == pytest.approx(1e9 * min(dram, C.copy_issue_gbs_per_ghz * 1.3005))
    slow_gpu = Clocks.of([replace(MAXN, gpu_mhz=318.75)])
    assert one(peak_bandwidth(C, slow_gpu)) == pytest.approx(1e9 * C.copy_issue_gbs_per_ghz * 0.31875)


def test_below_its_lowest_known_step_memory_keeps_that_steps_efficiency():
    lowest, known = (peak_bandwidth(C, Clocks.of([replace(MAXN, mem_mhz=mhz)])) for mhz in (204.0, 665.6))
    assert one(lowest) < one(known) * 204 / 665.6 * 1.05


def test_voltages_are_one_at_the_top_and_flat_at_the_bottom():
    assert one(gpu_voltage(C, np.array([1.3005]))) == pytest.approx(1)
    assert gpu_voltage(C, np.array([0.114, 0.3])).tolist() == [C.gpu_volt_min] * 2
    assert one(cpu_voltage(C, np.array([2.2016]))) == pytest.approx(1)
    assert cpu_voltage(C, np.array([0.1, 0.7])).tolist() == [C.cpu_volt_min] * 2


def test_a_launch_bound_network_takes_its_launches_and_scales_with_the_cpu():
    work = work_of(table(row("elementwise", read=4), row("rnn", read=4, kernels=3)))
    expected_s = 1e-6 * (2 * C.op_launch_us + C.cudnn_launch_us + 2 * C.kernel_launch_us)
    assert one(launch_time(C, work, TOP)) == pytest.approx(expected_s)
    half = Clocks.of([replace(MAXN, cpu_mhz=1100.8)])
    assert one(launch_time(C, work, half)) == pytest.approx(2 * expected_s)
    slow_memory = Clocks.of([replace(MAXN, mem_mhz=665.6)])
    factor = 1 + C.launch_memory_share * (3199 / 665.6 - 1)
    assert one(launch_time(C, work, slow_memory)) == pytest.approx(factor * expected_s)


def test_a_large_convolution_runs_at_the_roof_that_its_channels_allow():
    flops = 4_000_000_000_000
    result = predict(C, work_of(table(row("conv", flops=flops, read=1000, channels=(256, 512)))), TOP)
    waste = (1 + C.conv_half_channels / 256) * (1 + C.conv_half_channels / 512)
    roof_s = flops * waste / one(peak_flops(C, TOP))
    assert one(result.gpu_s) == pytest.approx(roof_s + 1e-6 * C.kernel_latency_us_ghz / 1.3005)
    assert one(result.minibatch_s) == pytest.approx(one(result.gpu_s), rel=1e-3)


@pytest.mark.parametrize(("op_class", "share"), [("elementwise", 1.0), ("conv", C.matrix_bandwidth_share)])
def test_a_large_memory_bound_operator_runs_at_its_share_of_the_bandwidth_roof(op_class, share):
    result = predict(C, work_of(table(row(op_class, read=10**11, channels=(64, 64)))), TOP)
    assert one(result.minibatch_s) == pytest.approx(1e11 / (share * one(peak_bandwidth(C, TOP))), rel=1e-3)


def test_a_streaming_operator_draws_what_a_copy_draws():
    result = predict(C, work_of(table(row("elementwise", read=10**11))), TOP)
    assert one(result.power_w) == pytest.approx(one(microbenchmark(C, TOP).copy_w), rel=1e-3)


def test_a_minibatch_is_the_exposed_convolutions_and_the_norm_of_gpu_launches_and_loading():
    work = work_of(mixed(batch_size=4, images=True))
    result = predict(C, work, TOP)
    exposed_s = 3.04e9 / (1e12 * C.conv_exposed_tflops_per_ghz * 1.3005)
    parts = [one(result.gpu_s) - exposed_s, one(result.launch_s), one(result.load_s)]
    q = C.overlap_norm
    assert one(result.load_s) == pytest.approx(4 * C.decode_core_ghz_s / 2.2016 / 4)
    assert one(result.minibatch_s) == pytest.approx(exposed_s + sum(part**q for part in parts) ** (1 / q))


def test_an_idle_core_costs_power_and_the_only_core_launches_and_loads_in_turn():
    cores = Clocks.of([replace(MAXN, cpu_cores=count) for count in (12, 8, 2, 1)])
    result = predict(C, work_of(mixed(batch_size=4, images=True)), cores)
    time_s, launch_s, static_w = (part.tolist() for part in (result.minibatch_s, result.launch_s, result.static_w))
    assert static_w[0] - static_w[1] == pytest.approx(C.cpu_static_w / 3)
    assert time_s[0] == time_s[1] < time_s[2] < time_s[3]
    assert launch_s[3] - launch_s[2] == pytest.approx(4 * C.decode_core_ghz_s / 2.2016)


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 1), (4, 3), (5, 4), (12, 4)])
def test_images_are_decoded_by_the_cores_left_over_up_to_four(cores, workers):
    at = Clocks.of([replace(MAXN, cpu_cores=cores)])
    load_s = one(predict(C, work_of(mixed(task="train", batch_size=8, images=True)), at).load_s)
    assert load_s == pytest.approx(8 * C.decode_core_ghz_s / 2.2016 / workers)


def test_matrix_products_run_on_cuda_cores_unless_told_otherwise():
    work = work_of(table(row("gemm", flops=10**12, read=1000)))
    slow, fast = (one(predict(C, work, TOP, tf32_matmul=on).minibatch_s) for on in (False, True))
    assert slow == pytest.approx(1e12 / (1e12 * C.gemm_issue_share * C.roof_issue_tflops_per_ghz * 1.3005), rel=0.02)
    assert fast == pytest.approx(1e12 / (C.gemm_tensor_share * one(peak_flops(C, TOP))), rel=1e-3)


@pytest.mark.parametrize("op_class", ["conv", "gemm", "rnn", "depthwise"])
def test_only_streams_reach_the_full_bandwidth(op_class):
    work = {name: work_of(table(row(name, read=10**9, channels=(64, 64)))) for name in (op_class, "elementwise")}
    slow_s, full_s = (one(predict(C, each, TOP).gpu_s) - latency_s() for each in work.values())
    assert full_s == pytest.approx(1e9 / one(peak_bandwidth(C, TOP)))
    assert slow_s == pytest.approx(full_s / C.matrix_bandwidth_share)


def latency_s():
    return 1e-6 * C.kernel_latency_us_ghz / 1.3005


def test_narrower_types_are_faster_and_spend_less():
    results = [predict(C, work_of(mixed(), precision=p), TOP) for p in ("fp32", "fp16", "int8")]
    energies_j = [one(result.minibatch_s * result.power_w) for result in results]
    assert energies_j == sorted(energies_j, reverse=True)
    assert one(results[0].gpu_s) > one(results[1].gpu_s) > one(results[2].gpu_s)


@given(st.integers(1, 10**11), st.integers(1, 10**9), st.sampled_from(["conv", "gemm", "depthwise", "elementwise"]))
def test_more_work_never_takes_less_time_nor_energy(flops, moved, op_class):
    def total(scale):
        work = work_of(table(row(op_class, flops=scale * flops, read=scale * moved, channels=(64, 64))))
        result = predict(C, work, Clocks.of([MAXN, LOW]))
        return result.minibatch_s, result.minibatch_s * result.power_w

    for once, twice in zip(total(1), total(2), strict=True):
        assert np.all(twice >= once * (1 - 1e-12))


@pytest.mark.parametrize("options", [{}, {"task": "train", "batch_size": 4, "images": True}])
def test_time_never_rises_and_power_never_falls_with_cores_cpu_or_gpu_clock(options):
    result = predict(C, work_of(mixed(**options)), ALL_441)
    time_s, power_w = result.minibatch_s.reshape(SHAPE), result.power_w.reshape(SHAPE)
    for axis in range(4):
        assert np.diff(time_s, axis=axis).max() <= 1e-15
    for axis in range(3):
        assert np.diff(power_w, axis=axis).min() >= -1e-9


def test_power_is_between_rest_and_the_hungriest_benchmark():
    bench = microbenchmark(C, ALL_441)
    result = predict(C, work_of(mixed()), ALL_441)
    assert np.all(result.power_w > result.static_w)
    assert np.all(result.power_w < np.maximum(bench.gemm_w, bench.copy_w) + 5)


def test_the_energy_roofline_is_consistent_on_both_branches():
    bench = microbenchmark(C, Clocks.of([MAXN, replace(MAXN, mem_mhz=665.6), LOW]))
    assert bench.flops_per_j == pytest.approx(1 / (bench.flop_j + bench.static_w / bench.flops_per_s))
    # At the energy balance point efficiency is half of its peak, whichever bound holds there.
    intensity = bench.energy_balance
    per_flop_s = np.maximum(1 / bench.flops_per_s, 1 / (intensity * bench.bytes_per_s))
    energy_j = bench.flop_j + bench.byte_j / intensity + bench.static_w * per_flop_s
    assert 1 / energy_j == pytest.approx(bench.flops_per_j / 2)
    assert bench.first(2).balance.tolist() == bench.balance[:2].tolist()

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin_tables import mixed, row, table

from benchmarks.twin import total_flops
from edgetune.devices.twin.constants import load_board
from edgetune.devices.twin.work import GROUPS, OperatorGroup, work_of
from edgetune.errors import InputError

CONSTANTS = load_board("orin-agx")[0].values
amounts = st.lists(st.tuples(st.integers(0, 10**12), st.integers(0, 10**10)), min_size=1, max_size=20)


def test_operators_fall_into_the_group_that_runs_them():
    work = work_of(mixed())
    assert {name: len(work.flops[name]) for name in GROUPS} == {
        "conv": 2, "gemm": 1, "rnn": 1, "depthwise": 1, "saturated": 0, "stream": 2,
    }  # fmt: skip
    assert total_flops(work) == 3_992_000_000
    assert work.moved_bytes["stream"].tolist() == [8e6, 8e6]


def test_launches_count_operators_their_cudnn_calls_and_their_kernels_but_no_views():
    work = work_of(mixed())
    assert (work.operators, work.cudnn_calls, work.kernels) == (7, 4, 11)


@pytest.mark.parametrize(("task", "images", "decoded"), [("train", True, 16), ("train", False, 0), ("infer", True, 16)])
def test_images_are_decoded_in_training_and_in_inference(task, images, decoded):
    assert work_of(mixed(task=task, batch_size=16, images=images)).images == decoded


@pytest.mark.parametrize(("precision", "share"), [("fp32", 1), ("fp16", 0.5), ("int8", 0.25)])
def test_another_precision_scales_bytes_and_leaves_operations(precision, share):
    full, other = work_of(mixed()), work_of(mixed(), precision=precision)
    assert other.moved_bytes["conv"].sum() == share * full.moved_bytes["conv"].sum()
    assert total_flops(other) == total_flops(full)
    assert other.precision == precision


@pytest.mark.parametrize("operators", [mixed(precision="fp4"), table(), table(row("view", kernels=0))])
def test_what_cannot_be_simulated_is_refused(operators):
    with pytest.raises(InputError):
        work_of(operators)


def test_waste_lengthens_time_but_is_not_charged_as_energy():
    group = work_of(mixed()).groups(CONSTANTS)["conv"]
    assert group.nominal_flops == 3_040_000_000
    assert group.flops_below[-1] > group.nominal_flops


@given(amounts, st.floats(1e6, 1e14), st.floats(1e6, 1e12))
def test_a_sum_over_sorted_operators_is_the_sum_of_maxima(operators, flops_per_s, bytes_per_s):
    flops, moved = np.array(operators, dtype=float).T
    group = OperatorGroup.of(flops, moved, nominal_flops=float(flops.sum()))
    total_s, compute_s = group.roof_s(np.array([flops_per_s]), np.array([bytes_per_s]))
    compute, memory = flops / flops_per_s, moved / bytes_per_s
    assert total_s[0] == pytest.approx(np.maximum(compute, memory).sum(), rel=1e-9)
    # Which side an operator on the very corner falls is open; it weighs the same on both.
    clear = compute > memory * (1 + 1e-9)
    assert compute_s[0] >= compute[clear].sum() * (1 - 1e-6) - 1e-12
    assert compute_s[0] <= compute[compute >= memory * (1 - 1e-9)].sum() * (1 + 1e-6) + 1e-12

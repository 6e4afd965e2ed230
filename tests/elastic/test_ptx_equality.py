"""Elastic forms of kernels do what the originals do, for the whole corpus; and what the interpreter computes."""

import numpy as np
import pytest
from kernel_corpus import ARCHES
from ptx_corpus import BENCHMARK, NAMES, TRITON, text, transformed, trials

from edgetune.stages.elastic.cpu_equivalence import Matrix, check
from edgetune.stages.elastic.front import resources_of
from edgetune.stages.elastic.ptx.interpreter import PtxProgram
from edgetune.stages.elastic.ptx.parse import parse
from edgetune.stages.elastic.sample_launches import FORWARD, REVERSE, Buffers, CpuLaunch, SampleLaunch, chance

REFUSED = {
    "groups_handed_on": "warp-branch",
    "masked_sum": "warp-branch",
    "thread_trips": "barrier-branch",
    "vote_loops": "spin-wait",
}
"""Files of which a kernel is refused, and why."""
GRID_ONLY = {"shared_waits": "shared-wait", "triton_halves": "block-size", "triton_matmul": "block-size"}
"""Files whose blocks are not elastic, and why."""
SHORT = Matrix(schedules=(REVERSE, chance(2)), cuts=0, most=1)
"""The two orders in which warps run ahead of others."""


@pytest.mark.parametrize("name", [*NAMES, *BENCHMARK, *TRITON])
def test_forms_do_what_the_original_does(name: str) -> None:
    done = transformed(name)
    made = [each for each in done.kernels if each.variants]
    refused = [each.refusals[0].code for each in done.kernels if not each.variants]
    assert refused == [REFUSED[name]] if name in REFUSED else not refused
    assert {one.code for each in made for one in each.refusals} == ({GRID_ONLY[name]} if name in GRID_ONLY else set())
    for each in made:
        assert {"grid", "persistent", *(() if each.refusals else ("block",))} <= {one.level for one in each.variants}
    found = check(done, trials(name), name=name, matrix=SHORT)
    assert {each.kernel for each in found} == {each.kernel.name for each in made}
    for verdict in found:
        assert (verdict.answer, verdict.reason) == ("equal", "")
        assert verdict.sequences >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *BENCHMARK, *TRITON])
def test_forms_do_so_in_many_more_ways(name: str) -> None:
    for verdict in check(transformed(name), trials(name), name=name, matrix=Matrix(cuts=6, seed=7, most=40)):
        assert (verdict.answer, verdict.reason) == ("equal", "")


def launched(symbol: str, trial: SampleLaunch) -> CpuLaunch:
    logical = trial.call.logical
    return CpuLaunch(symbol, logical.grid, logical.block, trial.call.arguments, logical.dynamic_shared_bytes)


def on_the_interpreter(name: str, trial: SampleLaunch) -> Buffers:
    program = PtxProgram(text(name), name)
    outcome = next(program.run_all([([launched(trial.call.kernel, trial)], FORWARD)], trial.buffers))
    assert (outcome.status, outcome.message) == ("ok", "")
    return outcome.buffers


def test_triton_kernels_compute_what_they_are_written_for() -> None:
    (add,), (softmax,), (product,) = (trials(f"triton_{name}") for name in ("add", "softmax", "matmul"))
    x, y = (add.buffers[name][:1150] for name in "xy")
    found = on_the_interpreter("triton_add", add)["out"]
    assert np.array_equal(found[:1150], x + y)
    assert not found[1150:].any()
    rows = np.exp(softmax.buffers["x"].astype(float))
    got = on_the_interpreter("triton_softmax", softmax)["out"]
    assert np.allclose(got, rows / rows.sum(axis=1, keepdims=True), rtol=1e-5)
    got = on_the_interpreter("triton_matmul", product)["c"]
    assert np.allclose(got, product.buffers["a"].astype(float) @ product.buffers["b"], atol=1e-5)


def test_tensor_cores_multiply_matrices() -> None:
    (trial,) = trials("triton_halves")
    assert {"mma", "ldmatrix"} <= {each.op[0] for each in parse(text("triton_halves"), "k.ptx").entries[0].instructions}
    a, b = (trial.buffers[name].astype(float) for name in "ab")
    assert np.allclose(on_the_interpreter("triton_halves", trial)["c"], a @ b, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, *BENCHMARK, *TRITON])
def test_ptxas_takes_the_forms(name: str) -> None:
    done = transformed(name).source
    assert resources_of(done, "sm_87" if "sm_87" in done else ARCHES[0], name)

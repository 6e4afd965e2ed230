"""Trials of kernels run on a GPU: what is equal, and what each wrong form and wrong original is told as."""

import struct
from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import BUILD, KERNELS, SIZE, VALUES, Machine, interpreted, kernel, network
from ptx_corpus import transformed, trials

from edgetune.stages.elastic.cpu_equivalence import Verdict
from edgetune.stages.elastic.cuda.building import load_forms
from edgetune.stages.elastic.cuda.gpu_equivalence import check
from edgetune.stages.elastic.gpu import Logical
from edgetune.stages.elastic.kernel import CudaKernel, ElasticKernel, TransformResult, Variant
from edgetune.stages.elastic.sample_launches import SampleLaunch
from fakes.cuda_gpu import FakeCudaGpu, FakeCudaKernel

VARIANTS = {
    "double_it": (Variant("double_it__grid", "grid"), Variant("double_it__block2", "block", 2)),
    "add_one": (Variant("add_one__grid", "grid"), Variant("add_one__block2", "block", 2)),
}
ELASTIC = tuple(ElasticKernel(CudaKernel(name, 1, ()), variants) for name, variants in VARIANTS.items())
SOURCE = TransformResult("", ELASTIC)
MEMORY = {"x": VALUES["x"], "y": np.full(SIZE, 7, np.int32), "z": np.full(SIZE, 9, np.int32)}
TRIALS = [
    SampleLaunch(call, {each.buffer: MEMORY[each.buffer] for each in call.arguments[:2]}) for call in network().calls
]


def verdicts(
    changed: dict[str, FakeCudaKernel] | None = None, tried: list[SampleLaunch] | None = None
) -> tuple[Verdict, ...]:
    machine = Machine(kernels={**KERNELS, **(changed or {})})
    with machine.context() as context:
        found, untried = check(context, BUILD, SOURCE, TRIALS if tried is None else tried)
    assert machine.cuda.leaked() == []
    assert untried == {}
    return found


def test_forms_that_do_what_the_original_does_are_equal() -> None:
    assert [(each.kernel, each.answer, each.reason) for each in verdicts()] == [
        ("double_it", "equal", ""), ("add_one", "equal", ""),
    ]  # fmt: skip
    assert [each.sequences for each in verdicts()] == [21, 10], "add_one's form for 2 is none of the compiled ones"


def test_memory_is_as_the_trial_has_it_before_every_way() -> None:
    """A kernel that changes what it reads would run away otherwise."""

    def grows(memory, launch) -> None:
        right = kernel(2, 0, elastic=len(launch.arguments) > 3)
        assert right.run is not None
        right.run(memory, replace(launch, arguments=(launch.arguments[1], *launch.arguments[1:])))

    names = [name for name in KERNELS if name.startswith("double_it")]
    grown = {name: replace(KERNELS[name], run=grows) for name in names}
    assert verdicts(grown)[0].answer == "equal"


def test_a_wrong_form_is_reported_with_the_way_and_the_place() -> None:
    wrong = verdicts({"double_it__block2": replace(kernel(3, 0, elastic=True), duration_ns=1000)})
    assert [each.answer for each in wrong] == ["different", "equal"]
    assert wrong[0].reason.startswith(
        "double_it__block2<<<1, 32x1x1>>> on shards [(0, 6)], any order: y[1] is 3, not 2"
    )


def test_an_original_that_differs_from_itself_is_racy() -> None:
    numbers = iter(range(100))

    def racy(memory, launch) -> None:
        (target,) = struct.unpack("<Q", launch.arguments[1])
        memory.view(target, np.int32, SIZE)[:] = next(numbers)

    found = verdicts({"add_one": FakeCudaKernel((8, 8, 4), 1000, racy)})
    assert [each.answer for each in found] == ["equal", "racy"]
    assert found[1].sequences == 0


@pytest.mark.parametrize(
    ("symbol", "answer", "reason"),
    [("double_it", "fails", ""), ("double_it__grid", "different", "double_it__grid<<<1, 64x1x1>>> on shards")],
)
def test_nothing_is_tried_behind_a_kernel_that_fails(symbol: str, answer: str, reason: str) -> None:
    found = Machine(kernels={**KERNELS, symbol: replace(KERNELS[symbol], fails=700)})
    with found.context() as context:
        told, untried = check(context, BUILD, SOURCE, TRIALS)
    assert [each.answer for each in told] == [answer]
    assert told[0].reason.startswith(reason)
    assert "700" in told[0].reason
    assert list(untried) == ["add_one"]
    assert untried["add_one"].message.startswith("double_it failed before it")


def test_a_kernel_that_hangs_is_reported_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgetune.stages.elastic.cuda.context._NAP_S", 0.1)
    with Machine(
        kernels={**KERNELS, "double_it": replace(KERNELS["double_it"], duration_ns=None)}
    ).context() as context:
        (told,), untried = check(context, BUILD, SOURCE, TRIALS)
        assert context.hung
    assert list(untried) == ["add_one"]
    assert told.answer == "fails"
    assert "has not ended" in told.reason


def test_a_launch_that_the_kernel_does_not_take_is_not_tried_and_others_are() -> None:
    short = replace(TRIALS[0], call=replace(TRIALS[0].call, arguments=TRIALS[0].call.arguments[:2]))
    large = replace(TRIALS[0], call=replace(TRIALS[0].call, logical=Logical((1, 1, 1), (2048, 1, 1))))
    for wrong, why in ((short, "takes arguments of"), (large, "it has 2048 threads")):
        with Machine().context() as context:
            found, untried = check(context, BUILD, SOURCE, [wrong, TRIALS[1]])
        assert [each.kernel for each in found] == ["add_one"]
        assert why in untried["double_it"].message


@pytest.mark.parametrize("name", ["matmul_tiled", "grid_stride"])
def test_forms_on_a_fake_gpu_whose_cores_are_the_interpreter(name: str) -> None:
    (trial, *_), done = trials(name), transformed(name)
    with interpreted(done, FakeCudaGpu(sm_count=2)).context() as context:
        (told,), _ = check(context, load_forms(done, context, f"{name}.ptx"), done, [trial])
    assert (told.answer, told.reason) == ("equal", "")
    assert told.sequences >= 9


def test_kernels_with_textures_are_not_run() -> None:
    textured = replace(SOURCE, kernels=(replace(ELASTIC[0], kernel=replace(ELASTIC[0].kernel, textures=True)),))
    with Machine().context() as context:
        found, untried = check(context, BUILD, textured, TRIALS)
    assert found == ()
    assert "texture" in untried["double_it"].message

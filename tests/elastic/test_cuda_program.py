"""A network on the GPU: what kernels are given, and what is refused before anything runs."""

from dataclasses import replace

import numpy as np
import pytest
from cuda_scene import BLOCKS, BUILD, FORMS, KERNELS, THREADS, VALUES, Machine, kernel, launch, network
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.errors import DeviceError, EdgetuneError, InputError
from edgetune.stages.elastic import kernel as abi
from edgetune.stages.elastic.cuda.program import Program
from edgetune.stages.elastic.gpu import KernelSequence, Logical, Pointer, Resources, Scalar

X = VALUES["x"]
X_Y = Pointer("x"), Pointer("y")


def changed(**more) -> KernelSequence:
    """Return the network with all of its calls changed."""
    return replace(network(), calls=tuple(replace(call, **more) for call in network().calls))


def test_a_piece_does_its_blocks_and_no_others() -> None:
    with Machine().program() as (context, program):
        stream = context.stream()
        program.launch(launch(0, first=2, count=3, blocks=2), stream)
        context.synchronise(stream)
        y = program.read("y")
        begin, end = 2 * THREADS, 5 * THREADS
        assert np.array_equal(y[begin:end], 2 * X[begin:end])
        assert set(y[:begin]) | set(y[end:]) == {-1}, "as it was filled"


@settings(deadline=None)
@given(st.lists(st.integers(1, BLOCKS), min_size=1, max_size=BLOCKS), st.sampled_from([1, 2]))
def test_pieces_of_any_size_make_the_whole(sizes: list[int], per_thread: int) -> None:
    with Machine().program() as (context, program):
        stream, first = context.stream(), 0
        for number, size in enumerate([*sizes, BLOCKS]):
            count = min(size, BLOCKS - first)
            if count:
                piece = launch(number, first=first, count=count, per_thread=per_thread, blocks=1 + number % 3)
                program.launch(piece, stream)
            first += count
        context.synchronise(stream)
        assert np.array_equal(program.read("y"), 2 * X)


def test_the_arguments_of_a_launch_on_the_gpu() -> None:
    machine = Machine()
    with machine.program() as (context, program):
        stream = context.stream(-3)
        for each in (launch(0), launch(1, count=4, blocks=3), launch(2, count=4, per_thread=2, blocks=3)):
            program.launch(each, stream)
        context.synchronise(stream)
    whole, one, two = machine.cuda.launches
    assert (whole.symbol, whole.grid, whole.block) == ("double_it", (BLOCKS, 1, 1), (THREADS, 1, 1))
    assert (one.symbol, one.grid, one.block) == ("double_it__grid", (3, 1, 1), (THREADS, 1, 1))
    assert (two.symbol, two.grid, two.block) == ("double_it__block2", (3, 1, 1), (THREADS // 2, 1, 1))
    assert {each.priority for each in machine.cuda.launches} == {-3}
    assert one.arguments[3] == abi.packed((BLOCKS, 1, 1), (THREADS, 1, 1), 0, 4)


def test_warming_up_runs_every_form_and_leaves_the_answer() -> None:
    machine = Machine()
    with machine.program() as (context, program):
        program.warm_up(context.stream())
        assert np.array_equal(program.read("z"), 2 * X + 1)
        program.clear("z")
        assert set(program.read("z")) == {-1}
    assert {each.symbol for each in machine.cuda.launches} == {
        name for name in KERNELS if not name.startswith("edgetune")
    }


def test_a_form_whose_blocks_would_not_be_whole_warps_is_left_out() -> None:
    with Machine().context() as context:
        assert Program(context, changed(logical=Logical((8, 1, 1), (48, 1, 1))), BUILD).forms(0) == {None, 1}


def test_arguments_of_the_launch_before_are_left_alone() -> None:
    """The reference does not say when arguments are copied: two launches in a row read from different places."""
    machine, places = Machine(), []
    with machine.program() as (context, program):
        stream, real = context.stream(), machine.cuda.cuLaunchKernel
        machine.cuda.cuLaunchKernel = lambda *arguments: (places.append(arguments[9]), real(*arguments))[1]
        for number in range(4):
            program.launch(launch(number, first=number, count=1, blocks=1), stream)
        context.synchronise(stream)
    assert places[0] != places[1]
    assert places[:2] == places[2:]


def broken(**more) -> None:
    """Load a network whose first call is changed."""
    first, second = network().calls
    with Machine().context() as context:
        Program(context, replace(network(), calls=(replace(first, **more), second)), BUILD)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kernel": "halve_it"}, "network pair: its source has no kernel halve_it"),
        ({"logical": Logical((6, 1, 1), (2048, 1, 1))}, "pair: no block of kernel double_it fits on Fake"),
        ({"logical": Logical((6, 1, 1), (2048, 1, 1))}, "no block of kernel double_it fits on Fake"),
        ({"arguments": X_Y}, r"takes arguments of \[8, 8, 4\] bytes, and is given \[8, 8\]"),
        ({"arguments": (*X_Y, Scalar(bytes(8)))}, r"\[8, 8, 4\] bytes, and is given \[8, 8, 8\]"),
        ({"arguments": (*X_Y, Scalar(bytes(4)), *X_Y)}, r"\[8, 8, 4\] bytes, and is given \[8, 8, 4, 8, 8\]"),
    ],
)  # fmt: skip
def test_invalid_launches_are_refused_before_anything_runs(more: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        broken(**more)
    assert caught.value.hint


def test_too_many_registers_for_its_blocks() -> None:
    """1024 threads of 80 registers are more than the 65536 of a multiprocessor."""
    forms = {**FORMS, "double_it": {None: Resources(80)}}
    with Machine().context() as context, pytest.raises(InputError, match="no block of kernel double_it fits"):
        Program(context, changed(logical=Logical((1, 1, 1), (1024, 1, 1))), replace(BUILD, forms=forms))


def test_a_launch_that_the_driver_refuses_is_told_by_its_kernel() -> None:
    """As one of more threads than a kernel is compiled for, which its registers do not tell."""
    kernels = {**KERNELS, "double_it": kernel(2, 0, elastic=False, registers=80)}
    with Machine(kernels=kernels).context() as context:
        program = Program(context, changed(logical=Logical((1, 1, 1), (1024, 1, 1))), BUILD)
        with pytest.raises(DeviceError, match="kernel double_it: a launch asks for more registers or threads"):
            program.warm_up(context.stream())


def test_an_elastic_form_that_does_not_fit_is_left_out() -> None:
    """The original fits with its registers and shared memory, two of its forms do not."""
    calls = changed(logical=Logical((1, 1, 1), (1024, 1, 1), 100 << 10))
    forms = {**FORMS, "double_it": {None: Resources(32), 1: Resources(80), 2: Resources(32, 64 << 10)}}
    with Machine().context() as context:
        program = Program(context, calls, replace(BUILD, forms=forms))
        assert [program.forms(call) for call in (0, 1)] == [{None}, {None, 1}]
        rows = {name: replace(each, rows=True) for name, each in BUILD.kernels.items()}
        program = Program(context, changed(logical=Logical((1, 1, 1), (16, 2, 1))), replace(BUILD, kernels=rows))
        assert program.forms(0) == {None}
        with pytest.raises(EdgetuneError, match="kernel double_it has no form double_it__block2 on this GPU"):
            program.launch(replace(launch(0), what=calls.calls[0], per_thread=2, blocks=1), context.stream())


def test_shared_memory_declared_and_given_together() -> None:
    forms = {**FORMS, "double_it": {None: Resources(32, 20 << 10)}}
    kernels = {**KERNELS, "double_it": kernel(2, 0, elastic=False, static_shared_bytes=20 << 10)}
    machine = Machine(kernels=kernels)
    with machine.context() as context:
        given = changed(logical=Logical((BLOCKS, 1, 1), (THREADS, 1, 1), 40 << 10))
        program = Program(context, given, replace(BUILD, forms=forms))
        program.write(VALUES)
        program.warm_up(context.stream())  # 60 KiB have to be permitted, although 40 would not
        too_much = changed(logical=Logical((BLOCKS, 1, 1), (THREADS, 1, 1), 150 << 10))
        with pytest.raises(InputError, match=r"no block of kernel double_it fits.* 170 KiB of shared memory"):
            Program(context, too_much, replace(BUILD, forms=forms))

"""Launches are read from comments beside kernels.

Random PTX kernels: what is made elastic runs to its end, and its form does what the original does.
"""

from collections import Counter

import numpy as np
import pytest
from random_ptx import random_kernel

from edgetune.errors import InputError
from edgetune.stages.elastic.cpu_equivalence import Matrix, check
from edgetune.stages.elastic.gpu import Logical, Pointer, Scalar
from edgetune.stages.elastic.ptx import transform
from edgetune.stages.elastic.ptx.control_flow import Divergence
from edgetune.stages.elastic.ptx.legality import Legality
from edgetune.stages.elastic.ptx.transform import transform_ptx
from edgetune.stages.elastic.sample_launches import FORWARD, REVERSE, chance, sample_launches_in


def test_a_launch_has_its_arguments_in_order() -> None:
    (trial,) = sample_launches_in(
        "// launch k grid=4,3 block=8 shared=64 a=float32[2x3] n=int32:7 b=uint8[4]:zero\n", "k.cu"
    )
    assert trial.call.logical == Logical((4, 3, 1), (8, 1, 1), 64)
    assert trial.call.arguments == (Pointer("a"), Scalar((7).to_bytes(4, "little")), Pointer("b"))
    assert trial.buffers["a"].shape == (2, 3)
    assert not trial.buffers["b"].any()


def test_a_struct_is_its_members() -> None:
    (trial,) = sample_launches_in("  // launch k grid=1 block=1 s=int32:1,2+float32:0.5+uint8:3,0,0,0\n", "k.cu")
    expected = np.array([1, 2], "<i4").tobytes() + np.array([0.5], "<f4").tobytes() + bytes([3, 0, 0, 0])
    assert trial.call.arguments == (Scalar(expected),)


def test_memory_is_filled_by_range() -> None:
    words = "grid=1 block=1 a=float32[50]:0.5..1 d=float32[9]:2..4"
    filled = sample_launches_in(f"// launch k {words}", "k.cu")[0].buffers
    assert filled["a"].min() >= 0.5
    assert filled["a"].max() < 1
    assert len(set(filled["a"])) > 40
    assert set(filled["d"]) == {2, 3}


def test_vectors_are_several_numbers() -> None:
    (trial,) = sample_launches_in("// launch k grid=1 block=1 a=float4[8] b=uchar4[2x3]:count c=int2:3,4\n", "k.cu")
    assert (trial.buffers["a"].shape, trial.buffers["a"].dtype) == ((8, 4), np.float32)
    np.testing.assert_array_equal(trial.buffers["b"].ravel(), range(24))
    assert trial.call.arguments[2] == Scalar(np.array([3, 4], "<i4").tobytes())


def test_an_instance_is_named_as_it_is_launched() -> None:
    text = "// launch k<float, 16> grid=1 block=1\n// launch k<A<int>> grid=1 block=1\n// launch k_2 grid=1 block=1\n"
    assert [each.call.kernel for each in sample_launches_in(text, "k.cu")] == ["k_float_16", "k_A_int", "k_2"]


def test_memory_is_filled_as_asked() -> None:
    (trial,) = sample_launches_in(
        "// launch k grid=1 block=1 a=int32[5]:count b=int16[100]:-3..4 c=float64[100]\n", "k.cu"
    )
    np.testing.assert_array_equal(trial.buffers["a"], range(5))
    assert set(trial.buffers["b"]) == set(range(-3, 4))
    assert -1 <= trial.buffers["c"].min() < -0.5 < 0.5 < trial.buffers["c"].max() <= 1


def test_memory_that_there_is_not_is_said() -> None:
    with pytest.raises(InputError, match="no room here for the memory of the launch of k"):
        sample_launches_in("// launch k grid=1 block=1 a=float32[400000000000000]\n", "k.cu")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("grid=1 a=float32[3]", "needs grid= and block="),
        ("grid=0 block=1", "above zero"),
        ("grid=1 block=1 a", "'a' is not name=value"),
        ("grid=1 block=1 a=3", "neither TYPE[SHAPE] nor TYPE:NUMBER"),
        ("grid=1 block=1 a=real32[3]", "no type"),
        ("grid=1 block=1 a=int32[3]:many", "none of zero, count"),
        ("grid=1 block=1 a=int32[3]:0.5..2", "are no integers"),
        ("grid=1 block=1 a=int32[3]:5..2", "holds no number"),
        ("grid=1 block=1 a=int32[3] a=int32[3]", "twice"),
        ("grid=1 block=1 n=float2:1", "needs 2 numbers"),
        ("grid=1 block=1 n=uint8:300", "fit"),
        ("grid=1 block=1 n=int:1", "'int' does not say its size: write int32 for C's int"),
    ],
)
def test_unreadable_launches_are_reported_with_their_line(words: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        sample_launches_in(f"\n\n// launch k {words}\n", "k.cu")
    assert caught.value.message.startswith("k.cu:3: cannot read the launch of k: ")
    assert said in caught.value.message
    assert "// launch saxpy grid=6" in caught.value.hint


MATRIX = Matrix(schedules=(FORWARD, REVERSE, chance(1), chance(2)), cuts=1)


SHORT = Matrix(schedules=(REVERSE, chance(2)), cuts=0, most=2)


def answers(seeds: range, matrix: Matrix = MATRIX) -> Counter[str]:
    found = Counter[str]()
    for seed in seeds:
        text = random_kernel(seed)
        done = transform_ptx(text, f"{seed}.ptx", persistent=True)
        if not done.kernels[0].variants:
            found[done.kernels[0].refusals[0].code] += 1
            continue
        (verdict,) = check(done, sample_launches_in(text, "k"), name=f"{seed}.ptx", matrix=matrix, limit_s=5)
        assert (verdict.answer, verdict.reason) == ("equal", ""), seed
        found["equal"] += 1
    return found


def test_forms_of_random_kernels_do_what_the_originals_do() -> None:
    found = answers(range(24), SHORT)
    assert found["equal"] >= 3
    assert set(found) <= {"equal", "barrier-branch", "warp-branch"}


@pytest.mark.slow
def test_forms_of_many_more_random_kernels_do_so() -> None:
    assert answers(range(100, 300))["equal"] > 30


@pytest.mark.slow
def test_what_is_refused_would_often_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules refuse more than they must, but not for nothing: forms of many refused kernels differ or hang."""
    refused = [each for each in map(random_kernel, range(30)) if transform_ptx(each, "k.ptx").kernels[0].refusals]
    monkeypatch.setattr(transform, "legality", lambda entry, _: Legality(flow=Divergence(entry)))
    found = Counter(
        check(transform_ptx(each, "k.ptx"), sample_launches_in(each, "k"), matrix=MATRIX, limit_s=3)[0].answer
        for each in refused
    )
    assert found["different"] >= 2, found

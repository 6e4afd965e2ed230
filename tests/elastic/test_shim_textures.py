"""Textures and surfaces on the CPU: forms read and write what the original does, and wrong ones do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from kernel_corpus import BRIEF

from edgetune.errors import InputError
from edgetune.stages.elastic.cpu_equivalence import Verdict, check
from edgetune.stages.elastic.guessed_launches import guessed_launches
from edgetune.stages.elastic.kernel import TransformResult
from edgetune.stages.elastic.sample_launches import sample_launches_in
from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import FORWARD, REVERSE, ShimLaunch, ShimResult
from edgetune.stages.elastic.source.transform import transform
from edgetune.stages.elastic.work import Pointer

BLUR = """#include <cuda.h>
__global__ void blur(cudaTextureObject_t texture, CUsurfObject to) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float4 sum = tex2D<float4>(texture, x, y);
    for (int i = 1; i < 3; ++i) sum.x += tex2DLod<float>(texture, x + 0.5f * i, y, i);
    surf2Dwrite(sum, to, x * sizeof(float4), y);
}
"""


def made(text: str) -> TransformResult:
    return transform(text, "one.cu")


def verdict(transformed: TransformResult) -> Verdict:
    guess = guessed_launches(transformed.kernels[0].kernel)[0]
    return check(transformed, sample_launches_in(f"// launch {guess}", "a guess"), matrix=BRIEF)[0]


def run(body: str, out: np.ndarray) -> ShimResult:
    built = build(f"__global__ void k({'float' if out.dtype.kind == 'f' else 'unsigned int'} *out) {{ {body} }}")
    return built.run([ShimLaunch("k", (1, 1, 1), (1, 1, 1), (Pointer("out"),))], {"out": out})


def test_a_launch_is_guessed_for_textures_and_surfaces_and_forms_are_equal() -> None:
    guess = guessed_launches(made(BLUR).kernels[0].kernel)[0]
    assert guess == "blur grid=2,2 block=16,16 texture=uint64:1 to=surface[16x64x512]"
    found = verdict(made(BLUR))
    assert (found.answer, found.reason) == ("equal", "")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [("tex2D<float4>(texture, x, y)", "tex2D<float4>(texture, y, x)"), ("to, x * sizeof(float4), y", "to, 0, y")],
)
def test_a_form_with_other_coordinates_is_different(right: str, wrong: str) -> None:
    transformed = made(BLUR)
    before, _, forms = transformed.device.partition("// Elastic forms")
    assert right in forms
    found = verdict(replace(transformed, device=before + "// Elastic forms" + forms.replace(right, wrong)))
    assert found.answer == "different"


def test_two_threads_that_write_one_place_of_a_surface_are_a_race() -> None:
    text = "__global__ void k(cudaSurfaceObject_t s) { surf1Dwrite((int)threadIdx.x, s, 4 * (threadIdx.x / 2)); }"
    assert verdict(made(text)).answer == "racy"


def test_a_loop_that_waits_for_a_surface_is_refused() -> None:
    text = "__global__ void k(cudaSurfaceObject_t s) { while (surf1Dread<int>(s, 0) != 1) ; }"
    assert [each.code for each in made(text).kernels[0].refusals] == ["spin-wait"]


def test_numbers_of_textures_differ_by_place_and_lie_in_the_range_of_their_type() -> None:
    body = "for (int i = 0; i < 64; ++i) out[i] = tex1D<float>(i / 32, i % 32);"
    got = run(body, np.zeros(64, np.float32)).buffers["out"]
    assert len(set(got)) == 64
    assert got.min() >= 0
    assert 0.5 < got.max() < 1
    body = "for (int i = 0; i < 64; ++i) { uchar4 v = tex1Dfetch<uchar4>(1, i); out[i] = v.x; out[64 + i] = v.w; }"
    got = run(body, np.zeros(128, np.uint32)).buffers["out"]
    assert 200 < got.max() < 256
    assert len(set(got)) > 60


def test_every_function_of_textures_and_surfaces_is_there() -> None:
    calls = [
        "out[0] = tex1D<float>(1, 0.5f) == tex1D<float>(1, 0.5f)", "float v; tex2D(&v, 1, 1.0f, 2.0f)",
        "tex2DGrad<float2>(1, v, v, make_float2(v, v), make_float2(v, v))", "tex3D<float>(1, v, v, v)",
        "tex3DLod<float>(1, v, v, v, v)", "tex1DLayered<float>(1, v, 2)", "tex2DLayered<int>(1, v, v, 2)",
        "texCubemap<float>(1, v, v, v)", "texCubemapLayered<float4>(1, v, v, v, 3)", "tex2Dgather<uchar4>(1, v, v, 1)",
    ]  # fmt: skip
    assert run("; ".join(calls) + ";", np.zeros(1, np.float32)).buffers["out"][0] == 1


SURFACE = """__global__ void k(cudaSurfaceObject_t s, float *out) {
    surf3Dwrite(2.0f, s, 4, 1, 1);
    surf2DLayeredwrite(3.0f, s, 0, 1, 0);
    surf2Dread(&out[0], s, 0, 1);
    out[1] = surf3Dread<float>(s, 4, 1, 1);
    out[2] = surf3Dread<float>(s, 40, 7, 1, cudaBoundaryModeClamp);
    out[3] = surf2Dread<float>(s, -4, 0, cudaBoundaryModeZero);
    surf2Dwrite(5.0f, s, 8, 0, cudaBoundaryModeZero);
    if (out[4] > 0) surf2Dwrite(5.0f, s, 5, 0);
}"""


@pytest.mark.parametrize("beside", [False, True])
def test_surfaces_have_bytes_rows_and_layers(beside: bool) -> None:
    trial = sample_launches_in(
        f"// launch k grid=1 block=1 s=surface[2x2x8] out=float32[5]:{int(beside)}..{1 + beside}", "k.cu"
    )
    launch = ShimLaunch("k", (1, 1, 1), (1, 1, 1), trial[0].call.arguments)
    outcomes = list(build(SURFACE).run_all([([launch], FORWARD), ([launch], REVERSE)], trial[0].buffers))
    if beside:
        assert outcomes[0].status == "crash"
        assert "a surface of 2 layers of 2 rows of 8 bytes, at byte 5 of row 0 of layer 0" in outcomes[0].message
        return
    np.testing.assert_array_equal(outcomes[0].buffers["out"], [3, 2, 2, 0, 0])
    np.testing.assert_array_equal(outcomes[0].buffers["s"][16:].view(np.float32)[[2, 7]], [3, 2])


def test_a_surface_of_four_sizes_is_refused() -> None:
    with pytest.raises(InputError, match="a surface has bytes, rows and layers"):
        sample_launches_in("// launch k grid=1 block=1 s=surface[2x2x2x8]", "k.cu")

"""A kernel with an instruction that the interpreter lacks keeps no other kernel of the file from being checked."""

import json

import pytest

SPOILED = """__device__ int asm_of(int v) { int r; asm("suq.width.b32 %0, [%1];" : "=r"(r) : "l"(0ull)); return r + v; }
__global__ void spoiler(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] = asm_of(a[0]); }
__global__ void one(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__global__ void two(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 2; }
"""


@pytest.mark.parametrize("given", [("spoiler", "one", "two")])
def test_the_others_are_checked_and_the_reason_is_told(edgetune, tmp_path, given):
    file = tmp_path / "spoiled.cu"
    file.write_text(SPOILED)
    launches = [word for name in given for word in ("--launch", f"{name} grid=2 block=32 a=int32[64]")]
    ended = edgetune("schedule", "kernels", "transform", str(file), "--check", "--json", *launches)
    assert ended.code == 5
    rows = {each["name"]: each["check"] for each in json.loads(ended.out)["kernels"]}
    assert [rows[name]["answer"] for name in ("spoiler", "one", "two")] == ["not tried", "equal", "equal"]
    assert "suq.width.b32" in rows["spoiler"]["why"]

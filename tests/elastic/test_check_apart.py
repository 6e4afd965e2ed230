"""A kernel that does not compile for the CPU keeps no other kernel of the file from being checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgetune.cli.main import main

ASM = """__device__ int asm_of(int v) { int r; asm("lop3.b32 %0, %1, %1, %1, 0x96;" : "=r"(r) : "r"(v)); return r; }
__global__ void spoiler(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] = asm_of(a[0]); }
__global__ void one(int *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__global__ void two(float *a) { a[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
"""


@pytest.mark.parametrize("given", [(), ("spoiler", "one", "two"), ("spoiler",)])
def test_the_others_are_checked_and_the_reason_is_told(
    given: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spoiled.cu"
    file.write_text(ASM)
    launches = [word for name in given for word in ("--launch", f"{name} grid=2 block=32 a={_type(name)}[64]")]
    command = ["schedule", "kernels", "transform", str(file), "--check", "--json", *launches]
    assert main(command) == 5
    rows = {each["name"]: each["check"] for each in json.loads(capsys.readouterr().out)["kernels"]}
    assert {name: row["answer"] for name, row in rows.items()} == {
        "spoiler": "not tried", "one": "equal", "two": "equal"
    }  # fmt: skip
    assert "inline assembly" in rows["spoiler"]["why"]


def _type(kernel: str) -> str:
    return "float32" if kernel == "two" else "int32"

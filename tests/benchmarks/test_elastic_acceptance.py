"""The count of kernels that are made elastic, on a folder of three files."""

import json
import shutil

import pytest
from elastic_acceptance import main

SHIFT = "template <class T> __global__ void shift(T *x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }"
LAUNCHES = "void f(int *x, float *y) { shift<int><<<2, 32>>>(x); shift<float><<<2, 32>>>(y); }"
FILES = {
    "scale.cu": '#include "shift.cuh"\n__global__ void scale(int *x) { x[blockIdx.x] = 3; }\n',
    "shift.cuh": f"#pragma once\n{SHIFT}\n",
    "waits.cu": "__global__ void waits(volatile int *x) { while (*x == 0) { } }\n",
    "asks.cu": f'#include "shift.cuh"\n{LAUNCHES}\n',
    "alone.cuh": "__global__ void alone(float *x) { x[blockIdx.x] = 1; }\n",
    "host.cu": "void nothing() {}\n",
}


@pytest.mark.skipif(shutil.which("g++") is None, reason="forms are checked by g++")
def test_each_kernel_counts_once_with_its_answer(tmp_path, capsys):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    assert main([str(tmp_path), "-o", str(tmp_path / "found.json")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("5 files, 4 kernels: 3 elastic\n"), said
    kernels = json.loads((tmp_path / "found.json").read_text())
    found = {each["name"].partition("_")[0]: each["answer"] for each in kernels}
    assert found == {"scale": "equal", "alone": "equal", "waits": "refused: spin-wait", "shift": "equal"}

"""Kernels of the corpus on the CPU give what numpy gives: the shim itself is right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from kernel_corpus import source, trials

from edgetune.stages.elastic.shim.build import build
from edgetune.stages.elastic.shim.run import ShimLaunch, chance

Arrays = Mapping[str, np.ndarray[Any, Any]]


def softmax(given: Arrays) -> Arrays:
    powers = np.exp(given["in"] - given["in"].max(1, keepdims=True))
    return {"out": powers / powers.sum(1, keepdims=True)}


def layer_norm(given: Arrays) -> Arrays:
    rows = given["in"].astype(float)
    return {"out": (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)}


def convolution(given: Arrays) -> Arrays:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(given["in"], ((0, 0), (2, 2))), 5, axis=1)
    return {"out": windows @ given["filter"]}


def block_sums(name: str, size: int) -> Callable[[Arrays], Arrays]:
    def sums(given: Arrays) -> Arrays:
        return {"out": np.add.reduceat(given["in"], np.arange(0, given["in"].size, size))}

    return sums


def stencil(given: Arrays) -> Arrays:
    padded = np.pad(given["in"], 1)
    total = -6 * given["in"]
    for axis in range(3):
        for by in (-1, 1):
            total = total + np.roll(padded, by, axis)[1:-1, 1:-1, 1:-1]
    return {"out": total}


def max_pool(given: Arrays) -> Arrays:
    windows = np.lib.stride_tricks.sliding_window_view(given["in"], (3, 3), axis=(1, 2))
    return {"out": windows[:, ::2, ::2].max((3, 4))}


EXPECTED: dict[str, Callable[[Arrays], Arrays]] = {
    "saxpy": lambda given: {"y": np.float32(0.5) * given["x"] + given["y"]},
    "matmul_naive": lambda given: {"c": given["a"] @ given["b"]},
    "matmul_tiled": lambda given: {"c": given["a"] @ given["b"]},
    "convolution_tiled": convolution,
    "reduce_dynamic": block_sums("reduce_dynamic", 64),
    "reduce_shuffle": block_sums("reduce_shuffle", 128),
    "histogram": lambda given: {"counts": np.bincount(given["in"] & 15, minlength=16)},
    "scan": lambda given: {"out": given["in"].reshape(4, 64).cumsum(1).ravel()},
    "scan_blelloch": lambda given: {"out": (given["in"].reshape(3, 64).cumsum(1) - given["in"].reshape(3, 64)).ravel()},
    "transpose": lambda given: {"out": given["in"].T},
    "stencil": stencil,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "sum_atomic": lambda given: {"total": given["in"].sum()[None]},
    "bitonic": lambda given: {"data": np.sort(given["data"].reshape(4, 32), 1).ravel()},
    "max_pool": max_pool,
    "register_blocked": lambda given: {"c": given["a"] @ given["b"]},
    "last_warp": lambda given: {"out": given["in"].reshape(3, 128).sum(1)},
    "until_quiet": lambda given: {"data": np.maximum.accumulate(given["data"].reshape(4, 32), 1).ravel()},
    "float_maximum": lambda given: {"largest": np.maximum(given["in"].max(), 0)[None]},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_kernels_compute_what_they_are_named_for(name: str) -> None:
    trial = trials(name)[0]
    call = trial.call
    launch = ShimLaunch(
        call.kernel, call.logical.grid, call.logical.block, call.arguments, call.logical.dynamic_shared_bytes
    )
    outcome = build(source(name), f"{name}.cu").run([launch], trial.buffers, chance(3))
    assert outcome.message == ""
    for buffer, expected in EXPECTED[name](trial.buffers).items():
        np.testing.assert_allclose(outcome.buffers[buffer], expected, rtol=2e-5, atol=2e-6)

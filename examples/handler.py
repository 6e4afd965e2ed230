"""A handler as edgetune takes it: what a request is made into, and what becomes of its answer.

    echo 0.5 | edgetune interleave --infer zoo:squeezenet --handler examples/handler.py --arrivals - \\
      --latency-budget 1s --device host --duration 10s -o run.parquet

Here a line is a brightness, made into an image of that grey; each answer is one line on standard error.
"""

from __future__ import annotations

import sys

import numpy as np


def inputs(request: int, line: str | None) -> dict[str, np.ndarray]:
    """Return one sample for each input of the network, without the dimension of the batch."""
    brightness = float(line) if line is not None else request % 256 / 255
    return {"image": np.full((3, 224, 224), brightness, dtype=np.float32)}


def outputs(request: int, line: str | None, arrays: dict[str, np.ndarray]) -> None:
    """Take the answer to one request: an array for each output of the network."""
    for name, array in arrays.items():
        print(f"request {request} ({line}): {name} is largest at {int(array.argmax())}", file=sys.stderr)

"""A handler as edgetune takes it: what a request is made into, and what becomes of its answer.

    printf '0.2\\n0.5\\n' | edgetune interleave --infer zoo:squeezenet --handler examples/handler.py --arrivals - \\
      --latency-budget 1s --device host --duration 10s -o run.parquet

Here a line is a brightness, made into an image of that grey; each answer becomes a line of answers.csv. What a handler
prints is kept from the terminal; --verbose shows its last lines.
"""

import numpy as np


def inputs(request: int, line: str | None) -> dict[str, np.ndarray]:
    """Return one sample for each input of the network, without the dimension of the batch."""
    brightness = float(line) if line is not None else request % 256 / 255
    return {"image": np.full((3, 224, 224), brightness, dtype=np.float32)}


def outputs(request: int, line: str | None, arrays: dict[str, np.ndarray]) -> None:
    """Take the answer to one request: an array for each output of the network."""
    with open("answers.csv", "a", encoding="utf-8") as answers:
        for name, array in arrays.items():
            answers.write(f"{request},{line},{name},{int(array.argmax())}\n")

"""Versions of the libraries that a result depends on, without importing them, and their sources for a Jetson.

On a Jetson neither ``pip install torch`` nor ``onnxruntime-gpu`` from the public index reaches the GPU: both must be
built against the CUDA of the installed JetPack, for the Python that JetPack's Ubuntu carries.
"""

import platform
from dataclasses import dataclass
from importlib import metadata


def software_versions() -> dict[str, str | None]:
    """Return the versions of Python, ONNX Runtime, PyTorch and TensorRT; ``None`` for what is not installed."""
    return {
        "python": platform.python_version(),
        "onnxruntime": version_of("onnxruntime") or version_of("onnxruntime-gpu"),
        "torch": version_of("torch"),
        "tensorrt": version_of("tensorrt"),
    }


def version_of(package: str) -> str | None:
    """Return the installed version of a distribution, or ``None``."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


WHEELS = "$JETSON_WHEELS"
"""Placeholder of the address of NVIDIA's index of wheels built for Jetson, which has moved more than once."""

WHERE = "JETSON_WHEELS is the address of NVIDIA's Jetson wheel index: see 'PyTorch for Jetson' on NVIDIA's forum"


@dataclass(frozen=True, slots=True)
class Remedy:
    """How to install libraries that use the GPU under a JetPack release.

    Args:
        python: Version of the system's Python, for which NVIDIA builds its wheels.
        commands: Commands to run.
        note: Further advice.
    """

    python: str
    commands: tuple[str, ...]
    note: str


PYTHON_310 = (
    "curl -LsSf https://astral.sh/uv/install.sh | sh",
    "~/.local/bin/uv venv --seed --python 3.10 ~/edgetune",
    "~/edgetune/bin/pip install --prefer-binary .",
)
"""Install edgetune, in a clone of it, under a Python 3.10 beside the system's; every library has a wheel for it."""

ELSEWHERE = "networks and scripts reach the GPU in the system's Python, by --python /usr/bin/python3"

REMEDIES: dict[int, Remedy] = {
    4: Remedy("3.6", PYTHON_310, ELSEWHERE),
    5: Remedy("3.8", PYTHON_310, ELSEWHERE),
    6: Remedy(
        "3.10",
        tuple(f"pip install {name} --index-url {WHEELS}/jp6/cu126" for name in ("torch", "onnxruntime-gpu")),
        f"for JetPack 6.1 and 6.2 (CUDA 12.6) under the system's Python 3.10; {WHERE}",
    ),
    7: Remedy(
        "3.12",
        (f"pip install torch --index-url {WHEELS}/sbsa/cu130",),
        f"for CUDA 13 under the system's Python 3.12; {WHERE}; ONNX Runtime for it comes with NVIDIA's containers",
    ),
}
"""By JetPack. Sources: NVIDIA's Jetson wheel index, and "PyTorch for Jetson" on NVIDIA's developer forum."""

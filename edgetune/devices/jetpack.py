"""Which Jetson board and JetPack this is, and where its PyTorch and ONNX Runtime come from.

On a Jetson neither ``pip install torch`` nor ``onnxruntime-gpu`` from the public index reaches the GPU: both must be
built against the CUDA of the installed JetPack, for the Python that JetPack's Ubuntu carries.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

WHEELS = "$JETSON_WHEELS"
"""Stands for the address of NVIDIA's index of wheels built for Jetson, which has moved more than once."""

WHERE = "JETSON_WHEELS is the address of NVIDIA's Jetson wheel index: see 'PyTorch for Jetson' on NVIDIA's forum"


@dataclass(frozen=True, slots=True)
class Board:
    """A Jetson.

    Args:
        model: As the device tree says, e.g. ``NVIDIA Jetson AGX Orin Developer Kit``.
        l4t: Linux for Tegra release, e.g. ``36.4.3``; ``None`` when the release file is missing.
        jetpack: Major version of JetPack, e.g. 6; ``None`` when the release is unknown.
    """

    model: str
    l4t: str | None
    jetpack: int | None


@dataclass(frozen=True, slots=True)
class Remedy:
    """What a JetPack carries and how to get libraries that reach its GPU.

    Args:
        python: Version of the system's Python, for which NVIDIA builds its wheels.
        commands: What to run; empty where there is no wheel.
        note: What else to know.
    """

    python: str
    commands: tuple[str, ...]
    note: str


_JETPACK_OF_L4T = {32: 4, 34: 5, 35: 5, 36: 6, 38: 7, 39: 7}
"""Source: the ``NVIDIA_JETPACK`` table of jetson_stats, jtop/core/jetson_variables.py."""

REMEDIES: dict[int, Remedy] = {
    4: Remedy("3.6", (), "edgetune needs Python 3.10, where JetPack 4 has no wheel that reaches the GPU: CPU only"),
    5: Remedy(
        "3.8", (), "edgetune needs Python 3.10, where JetPack 5 has no wheel that reaches the GPU: use JetPack 6"
    ),
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


def detect_board(root: Path = Path("/")) -> Board | None:
    """Return the Jetson this is, or ``None`` on any other machine.

    Args:
        root: Where the file system starts; another folder in tests.
    """
    release = _read(root / "etc/nv_tegra_release")
    compatible = _read(root / "proc/device-tree/compatible")
    if release is None and "nvidia,tegra" not in (compatible or ""):
        return None
    model = (_read(root / "proc/device-tree/model") or "Jetson").strip("\0 \n")
    found = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", release or "")
    if found is None:
        return Board(model, None, None)
    return Board(model, f"{found[1]}.{found[2]}", _JETPACK_OF_L4T.get(int(found[1])))


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return None

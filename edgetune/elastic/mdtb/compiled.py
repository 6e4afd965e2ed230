"""What the kernels need once they are compiled: a stored table, so that simulations need no compiler.

``resources.json`` was made by ``python tests/elastic/mdtb_resources.py`` with NVRTC for compute capability 8.7 (Jetson
Orin): other architectures need a little more or less.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources as package
from types import MappingProxyType

from edgetune.elastic.gpu import Resources

ARCHITECTURE = "sm_87"
"""For which the table was made."""
KERNELS = (
    "add_relu", "average_pool", "convolution", "fully_connected", "global_average_pool", "gru_cell", "lstm_cell",
    "max_pool", "softmax",
)  # fmt: skip


@cache
def stored_resources() -> Mapping[str, Mapping[int, Resources]]:
    """Return what every kernel needs, by name and by logical threads per physical thread (1: the original)."""
    table = json.loads(package.files(__package__).joinpath("resources.json").read_text(encoding="utf-8"))
    return MappingProxyType(
        {
            kernel: {int(per_thread): Resources(**needs) for per_thread, needs in forms.items()}
            for kernel, forms in table["kernels"].items()
        }
    )

"""Writes what the networks' kernels need, as nvJitLink says: python tests/elastic/mdtb_resources.py

Run it when a kernel, the forms or the compiler have changed. No GPU is needed.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import edgetune.stages.elastic.mdtb
from edgetune.stages.elastic.front import forms_of, resources_of, transform
from edgetune.stages.elastic.mdtb.builder import kernel_source

FILE = Path(edgetune.stages.elastic.mdtb.__path__[0], "resources.json")
KERNELS = tuple(sorted(each.stem for each in FILE.parent.glob("*.cu")))


ARCHITECTURES = ("sm_75", "sm_87", "sm_90")
"""Of the GPUs in the catalogue, those that NVRTC compiles for."""


def table(kernels: Sequence[str] = KERNELS, architectures: Sequence[str] = ARCHITECTURES) -> dict[str, Any]:
    """Return what kernels need, by architecture, name and logical threads per physical thread."""
    found: dict[str, dict[str, Any]] = {}
    for arch, kernel in product(architectures, kernels):
        name = f"{kernel}.cu"
        done = transform(kernel_source(kernel), name, arch)
        forms = forms_of(done, resources_of(done.source, arch, name).__getitem__)[kernel]
        needs = {**{key: each for key, each in forms.items() if key}, 1: forms[None]}
        found.setdefault(arch, {})[kernel] = {str(each): asdict(needs[each]) for each in sorted(needs)}
    compiler = f"NVRTC {version('nvidia-cuda-nvrtc')}, nvJitLink {version('nvidia-nvjitlink')}"
    return {"compiler": compiler, "architectures": found}


if __name__ == "__main__":
    FILE.write_text(json.dumps(table(), indent=1) + "\n", encoding="utf-8")

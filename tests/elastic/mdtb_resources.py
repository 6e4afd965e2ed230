"""Writes what the networks' kernels need, as NVRTC says: python tests/elastic/mdtb_resources.py

Run it when a kernel, the generator or the compiler has changed. No GPU is needed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import edgetune.stages.elastic.mdtb
from edgetune.stages.elastic.forms import compile_forms
from edgetune.stages.elastic.mdtb.builder import kernel_source
from edgetune.stages.elastic.mdtb.networks import KERNELS
from edgetune.stages.elastic.source.transform import transform

FILE = Path(edgetune.stages.elastic.mdtb.__path__[0], "resources.json")


ARCHITECTURES = ("sm_75", "sm_87", "sm_90")
"""Of the GPUs in the catalogue, those that NVRTC compiles for."""


def table(kernels: Sequence[str] = KERNELS, architectures: Sequence[str] = ARCHITECTURES) -> dict[str, Any]:
    """Return what kernels need, by architecture, name and logical threads per physical thread."""
    found: dict[str, dict[str, Any]] = {}
    compiler = ""
    for arch, kernel in product(architectures, kernels):
        name = f"{kernel}.cu"
        compiled, forms = compile_forms(transform(kernel_source(kernel), name), arch, name=name)
        compiler = compiled.compiler
        needs = forms[kernel].resources
        found.setdefault(arch, {})[kernel] = {str(each): asdict(needs[each]) for each in sorted(needs)}
    return {"compiler": compiler, "architectures": found}


if __name__ == "__main__":
    FILE.write_text(json.dumps(table(), indent=1) + "\n", encoding="utf-8")

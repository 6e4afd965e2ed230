"""Writes what the networks' kernels need, as NVRTC says: python tests/elastic/mdtb_resources.py

Run it when a kernel, the generator or the compiler has changed. No GPU is needed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import edgetune.stages.elastic.mdtb
from edgetune.stages.elastic.forms import compile_forms
from edgetune.stages.elastic.mdtb.builder import kernel_source
from edgetune.stages.elastic.mdtb.networks import ARCHITECTURE, KERNELS
from edgetune.stages.elastic.source.transform import transform

FILE = Path(edgetune.stages.elastic.mdtb.__path__[0], "resources.json")


def table(kernels: Sequence[str] = KERNELS, arch: str = ARCHITECTURE) -> dict[str, Any]:
    """Return what kernels need, by name and by logical threads per physical thread."""
    found: dict[str, Any] = {}
    compiler = ""
    for kernel in kernels:
        name = f"{kernel}.cu"
        compiled, forms = compile_forms(transform(kernel_source(kernel), name), arch, name=name)
        compiler = compiled.compiler
        needs = forms[kernel].resources
        found[kernel] = {str(per_thread): asdict(needs[per_thread]) for per_thread in sorted(needs)}
    return {"architecture": arch, "compiler": compiler, "kernels": found}


if __name__ == "__main__":
    FILE.write_text(json.dumps(table(), indent=1) + "\n", encoding="utf-8")

"""The kind of processor that kernels' layouts depend on. Standard library only."""

from __future__ import annotations

import platform
from pathlib import Path


def processor_kind(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return what layouts of kernels depend on, e.g. ``x86_64 avx512f``.

    Source: MLAS (``MlasPlatform``) takes channels by 16 with AVX-512, by 8 with AVX or SSE, and otherwise as the
    architecture allows.
    """
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        text = ""
    flags: list[str] = next(
        (line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("flags")), []
    )
    best = next((flag for flag in ("avx512f", "avx2", "avx") if flag in flags), "")
    return f"{platform.machine()} {best}".strip()

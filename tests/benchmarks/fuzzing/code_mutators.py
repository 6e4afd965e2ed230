"""Damage to programs: CUDA C and Python, token by token."""

from __future__ import annotations

import re
from random import Random

from fuzzing.bytes_mutators import MOST_BYTES, damaged_text

_TOKEN = re.compile(r"\s+|\w+|//[^\n]*|\"[^\"\n]*\"|.", re.DOTALL)
_NASTY = (
    "(", ")", "{", "}", "[", "]", "*", "&", "<<<", ">>>", "::", "...", "#", "\\", "/*", "*/", '"', "'",
    "\n#define A A\n",
    "\n#define B(x) B(B(x))\n", "\n#if 0\n", "\n#endif\n", '\n#include "kernel.cu"\n', "\n#include <none.h>\n",
    "__syncthreads();", "__shared__", "__device__", "__global__", "template <int N>", "goto x;", "return;", "break;",
    "blockIdx.x", "gridDim.y", "threadIdx", "asm volatile(\"\");", "0xFFFFFFFFFFFFFFFFFF", "1e999f", "0b2", "'\\x'",
    "sizeof(int)", "union U { int a; };", "struct S;", "int x[];", "extern", "static", "inline", "\u00e9", "?:", "->",
    "//", "// launch tiled grid=0 block=0", "if (0)", "for (;;)", "while (1)", "do", "switch (0)", "case 1:",
    "default:",
)  # fmt: skip


def damaged_code(rng: Random, data: bytes) -> bytes:
    """Return a program with one to four tokens changed, or with bytes changed."""
    if rng.random() < 0.15:
        return damaged_text(rng, data)
    tokens = _TOKEN.findall(data.decode())
    for _ in range(rng.choice((1, 1, 2, 4))):
        _change(rng, tokens)
    return "".join(tokens).encode("utf-8", "surrogatepass")[:MOST_BYTES]


def _change(rng: Random, tokens: list[str]) -> None:
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    roll = rng.random()
    if roll < 0.2:
        tokens[at] = ""
    elif roll < 0.35:
        tokens[at] = tokens[other]
    elif roll < 0.45:
        tokens[at], tokens[other] = tokens[other], tokens[at]
    elif roll < 0.7:
        tokens[at] = rng.choice(_NASTY)
    elif roll < 0.85:
        tokens[at:at] = [rng.choice(_NASTY)]
    elif roll < 0.92:
        tokens[at] *= rng.choice((2, 50, 3000))
    else:
        deep = rng.choice((10, 100, 3000))
        left, right = rng.choice(("()", "[]", "{}"))
        tokens[at] = left * deep + tokens[at] + right * deep

"""Reads CUDA C.

    text -> tree -> functions and macros, headers beside the file included -> kernels

The tree is of the text as it stands: macros are not expanded and both sides of an ``#if`` are there. What that leaves
unclear is for ``refused`` to decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.elastic.source.nodes import declared_name, find, line_of, own, text_of, walk
from edgetune.elastic.source.unit import Macro, ParsedFile, ParsedFunction, ParsedKernel
from edgetune.errors import InputError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

__all__ = ["Macro", "ParsedFile", "ParsedFunction", "ParsedKernel", "parse", "syntax"]


def parse(text: str, name: str, folder: Path | None = None) -> ParsedFile:
    """Read a source file.

    Args:
        text: Its text.
        name: For messages.
        folder: Where headers that it includes are looked for; ``None``: nowhere.

    Raises:
        InputError: it has no kernel, cannot be read as CUDA C at all, or tree-sitter is not installed.
    """
    raise NotImplementedError

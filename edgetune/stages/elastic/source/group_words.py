"""Words that stand for those of cooperative groups while a source is read, and builtins that stand for their methods.

    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);    as written
    edgetune_cg_tile_16 tile = edgetune_cg_partition_16(block);         as read: plain names, which parse as such

Forms are written with the library's words again. Source: CUDA C++ Programming Guide, "Cooperative Groups".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgetune.stages.elastic.source.builtins import GROUP_PREFIX, LINEAR_THREAD
from edgetune.stages.elastic.source.syntax import Edit, words

LIBRARY = "cooperative_groups"
HEADERS = (f"{LIBRARY}.h", f"{LIBRARY}/reduce.h", f"{LIBRARY}/memcpy_async.h")
SIZES = (1, 2, 4, 8, 16, 32)
"""Threads in a tile that is a part of a warp."""
TYPES = {
    "block": f"{GROUP_PREFIX}thread_block",
    "grid": f"{GROUP_PREFIX}grid_group",
    "any": f"{GROUP_PREFIX}thread_group",
    "tile": f"{GROUP_PREFIX}tile_",
}
THIS_BLOCK, THIS_GRID = f"{GROUP_PREFIX}this_thread_block", f"{GROUP_PREFIX}this_grid"
PARTITION = f"{GROUP_PREFIX}partition"
OPERATORS = frozenset({"plus", "less", "greater", "bit_and", "bit_or", "bit_xor"})
"""Of ``cg::reduce``."""
_CONSTANTS = (
    re.compile(rb"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+\(?(\d+)[uU]?\)?[ \t]*\r?$", re.MULTILINE),
    re.compile(rb"\b(?:const|constexpr)\s+(?:unsigned\s+)?(?:int|unsigned|size_t)\s+(\w+)\s*=\s*(\d+)[uU]?\s*;"),
)
_MACRO = re.compile(rb"^[ \t]*#[ \t]*define[ \t]+\w+(\([^()]*\))?((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_RANK = f"({LINEAR_THREAD})"
_SIZE = "(blockDim.x * blockDim.y * blockDim.z)"
_BLOCK_RANK = "(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z))"
_BLOCKS = "(gridDim.x * gridDim.y * gridDim.z)"
_IN_GRID = f"((unsigned long long){_BLOCKS} * {_SIZE})"
_OF_GRID = {
    "thread_rank": f"((unsigned long long){_BLOCK_RANK} * {_SIZE} + {_RANK})", "size": _IN_GRID,
    "num_threads": _IN_GRID, "group_dim": "gridDim", "dim_blocks": "gridDim", "block_index": "blockIdx",
    "block_rank": f"((unsigned long long){_BLOCK_RANK})", "num_blocks": f"((unsigned long long){_BLOCKS})",
}  # fmt: skip
"""Methods of the grid that wait for nothing; to hand it to a function might."""
_SHUFFLES = {f"shfl{how}": f"__shfl{how}_sync" for how in ("", "_up", "_down", "_xor")}
_VOTES = {vote: f"__{vote}_sync" for vote in ("any", "all", "ballot")}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a group is.

    Args:
        threads: In a tile; 0 of the block, -1 of the grid.
        parent: Threads of the tile that it is a part of; 0 of the block.
    """

    threads: int = 0
    parent: int = 0


BLOCK, GRID = Kind(), Kind(-1)


def constants(texts: Sequence[bytes]) -> dict[str, int]:
    """Return the numbers that files give a name, each once."""
    found: dict[str, int] = {}
    for name, number in (pair for text in texts for pattern in _CONSTANTS for pair in pattern.findall(text)):
        again = re.compile(rb"\bdefine[ \t]+%s\b|\b%s\s*=[^=]" % (name, name))
        if sum(len(again.findall(text)) for text in texts) == 1:
            found[name.decode()] = int(number)
    return found


def words_of_macros(text: bytes) -> set[str]:
    """Return the words in the bodies of macros, without those of their parameters."""
    parts = (tuple(words(each.decode("utf-8", "replace")) for each in found) for found in _MACRO.findall(text))
    return {word for parameters, body in parts for word in body if word not in parameters}


def renames(text: bytes, spaces: Collection[str], sizes: Mapping[str, int]) -> list[Edit]:
    """Return the edits that put names in place of the library's types and of what makes groups.

    Args:
        text: Code, blanks for its comments and strings.
        spaces: Scopes before names of the library.
        sizes: Constants of the files by name.
    """
    space = f"(?<![\\w:.>])(?:{'|'.join(sorted(map(re.escape, spaces), reverse=True))})"
    tile = rf"(?:thread_block_tile\s*<\s*(?P<tile>\w+)\s*(?:,\s*{space}thread_block\s*)?>)"
    made = r"(?:tiled_partition\s*<\s*(?P<made>\w+)\s*>(?=\s*\())"
    plain = r"(?P<plain>(?:tiled_partition|this_(?:thread_block|grid))(?=\s*\()"
    plain += r"|(?:thread_(?:block|group)|grid_group)\b(?!\s*(?:::|<)))"
    found = []
    for each in re.finditer(f"{space}(?:{tile}|{made}|{plain})".encode(), text):
        parts = {key: value.decode() for key, value in each.groupdict().items() if value is not None}
        if "plain" in parts:
            new = PARTITION if parts["plain"] == "tiled_partition" else f"{GROUP_PREFIX}{parts['plain']}"
        else:
            ((key, word),) = parts.items()
            threads = int(word.rstrip("uU")) if word.rstrip("uU").isdecimal() else sizes.get(word)
            if threads not in SIZES:
                continue
            new = f"{GROUP_PREFIX}{'tile' if key == 'tile' else 'partition'}_{threads}"
        found.append(Edit(each.start(), each.end(), new + "\n" * each[0].count(b"\n")))
    return found


def with_library_words(text: str) -> str:
    """Return text that was taken from read source with the words of the library."""
    text = re.sub(rf"\b{TYPES['tile']}(\d+)\b", rf"{LIBRARY}::thread_block_tile<\1>", text)
    text = re.sub(rf"\b{PARTITION}_(\d+)\b", rf"{LIBRARY}::tiled_partition<\1>", text)
    text = re.sub(rf"\b{PARTITION}\b", f"{LIBRARY}::tiled_partition", text)
    return re.sub(rf"\b{GROUP_PREFIX}(\w+)", rf"{LIBRARY}::\1", text)


def builtin(kinds: Collection[Kind], method: str) -> tuple[str, str] | None:
    """Return the text that stands for a method before and behind its arguments; ``None`` where none is known.

    Of groups of several kinds, it only shows what the method may wait for and read, and no form is made of it.

    Args:
        kinds: What the group may be.
        method: Its name.
    """
    if len(kinds) > 1:
        return _several(kinds, method)
    (kind,) = kinds
    if kind == GRID:
        return (_OF_GRID[method], "") if method in _OF_GRID else None
    return _of_block(method) if kind == BLOCK else _of_tile(kind, method)


def _of_block(method: str) -> tuple[str, str] | None:
    texts = {
        "sync": "__syncthreads()", "thread_rank": _RANK, "size": _SIZE, "num_threads": _SIZE,
        "group_index": "blockIdx", "thread_index": "threadIdx", "group_dim": "blockDim", "dim_threads": "blockDim",
    }  # fmt: skip
    return (texts[method], "") if method in texts else None


def _of_tile(kind: Kind, method: str) -> tuple[str, str] | None:
    count = kind.threads
    whole = count == max(SIZES)
    first = f"({_RANK} % 32u / {count}u * {count}u)"
    mask = "0xffffffffu" if whole else f"({hex((1 << count) - 1)}u << {first})"
    rank = f"{_RANK} % {kind.parent}u" if kind.parent else _RANK
    number = f"{kind.parent // count}u" if kind.parent else f"(({_SIZE} + {count - 1}u) / {count}u)"
    texts = {
        "sync": f"__syncwarp({'' if whole else mask})", "thread_rank": f"({_RANK} % {count}u)",
        "size": f"{count}u", "num_threads": f"{count}u",
        "meta_group_rank": f"({rank} / {count}u)", "meta_group_size": number,
    }  # fmt: skip
    if method in texts:
        return texts[method], ""
    if method in _SHUFFLES:
        return f"{_SHUFFLES[method]}({mask}, ", ")" if whole else f", {count})"
    if method == "ballot" and not whole:
        return f"({_VOTES[method]}({mask}, ", f") >> {first})"
    return (f"{_VOTES[method]}({mask}, ", ")") if method in _VOTES else None


def _several(kinds: Collection[Kind], method: str) -> tuple[str, str] | None:
    texts = {"sync": "__syncwarp()", "thread_rank": "(threadIdx.x + 0u)", "size": _SIZE, "num_threads": _SIZE}
    if BLOCK in kinds:
        texts["sync"] = "(__syncthreads(), __syncwarp())"
    elif method in _SHUFFLES | _VOTES:
        return f"{(_SHUFFLES | _VOTES)[method]}(0xffffffffu, ", ")"
    return (texts[method], "") if method in texts else None

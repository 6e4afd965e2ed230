"""A seed with something wrong in it: which mutators know which shape of file."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import PurePath
from random import Random

from fuzzing.bytes_mutators import damaged_bytes, damaged_text
from fuzzing.code_mutators import damaged_code
from fuzzing.document_mutators import damaged_json, damaged_yaml
from fuzzing.network_mutators import damaged_onnx
from fuzzing.seeds import Link, Seed
from fuzzing.table_mutators import damaged_csv, damaged_parquet

Mutator = Callable[[Random, bytes], bytes]

_BY_SHAPE: Mapping[str, tuple[Mutator, ...]] = {
    "yaml": (damaged_yaml,) * 6 + (damaged_text,) * 3 + (damaged_bytes,),
    "json": (damaged_json,) * 6 + (damaged_text,) * 3 + (damaged_bytes,),
    "csv": (damaged_csv,) * 6 + (damaged_text,) * 3 + (damaged_bytes,),
    "parquet": (damaged_parquet,),
    "onnx": (damaged_onnx,),
    "code": (damaged_code,) * 4 + (damaged_bytes,),
    "bytes": (damaged_bytes,),
}
_BY_SUFFIX = {".json": "json", ".yaml": "yaml", ".onnx": "onnx", ".weights": "bytes"}


def damaged(rng: Random, seed: Seed) -> Mapping[str, bytes]:
    """Return the files of a seed, damaged."""
    if seed.shape == "folder":
        return _folder(rng, seed)
    (name, data), *_ = seed.files.items()
    return {name: _journal(rng, data) if seed.shape == "lines" else _changed(rng, seed.shape, data)}


def _changed(rng: Random, shape: str, data: bytes) -> bytes:
    try:
        return rng.choice(_BY_SHAPE[shape])(rng, data)
    except Exception:  # damaged before, so that it is of its shape no longer; or nothing can be written so
        return damaged_bytes(rng, data)


def _folder(rng: Random, seed: Seed) -> dict[str, bytes]:
    """Change one to three files of a folder, or lose them."""
    files = dict(seed.files)
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice([name for name, data in files.items() if data])
        shape = _BY_SUFFIX.get(PurePath(name).suffix, "text")
        if rng.random() < 0.15 or isinstance(files[name], Link):
            del files[name]
        elif shape == "text" or rng.random() < 0.2:
            files[name] = damaged_text(rng, files[name])
        else:
            files[name] = _changed(rng, shape, files[name])
    return files


def _journal(rng: Random, data: bytes) -> bytes:
    """Change the lines of a journal; most often with checksums that agree, as somebody would who wants to be read."""
    if rng.random() < 0.3:
        return damaged_text(rng, data)
    lines = data.splitlines(keepends=True)
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(lines))
        if rng.random() < 0.25:
            lines[at:at] = [rng.choice(lines)]
            continue
        body = _changed(rng, "json", lines[at][9:].strip() or b"{}").replace(b"\n", b" ")
        lines[at] = b"%08x %s\n" % (zlib.crc32(body), body)
    return b"".join(lines)

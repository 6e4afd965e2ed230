"""Reads arrays of a ``.npz`` file within limits, because a zip of 1 MB may expand to a gigabyte."""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from edgetune import limits
from edgetune.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_BYTES_PER_BYTE = 8
"""How many times its size a file may always have in memory: arrays of measurements compress to a third or less."""
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""As numpy writes them; others may take memory that no header tells."""
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, ValueError, TypeError, OSError, EOFError, RuntimeError, MemoryError,
    LookupError, ArithmeticError, AttributeError, SyntaxError, tokenize.TokenError,
)  # fmt: skip
"""What damaged files raise in the readers of zips and of headers, of which one is read as Python."""
_ENDING = ".npy"


def read_npz(data: bytes, *, name: str, hint: str, wanted: Callable[[str], bool] = bool) -> dict[str, NDArray[Any]]:
    """Return the arrays of a ``.npz`` file by their names.

    Sizes are checked before expansion: those in the directory of the zip, and the shape in the header of every array
    against its bytes.

    Args:
        data: The file.
        name: For messages.
        hint: How such a file is written.
        wanted: Returns whether to read the array of a name.

    Raises:
        InputError: it is not a ``.npz`` file, has arrays of Python objects, or has more bytes than the limit allows.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [each for each in archive.infolist() if wanted(each.filename.removesuffix(_ENDING))]
            size = sum(each.file_size for each in members)
            limits.check("array_bytes", size, name, at_least=_BYTES_PER_BYTE * len(data))
            return {each.filename.removesuffix(_ENDING): _array(archive, each) for each in members}
    except _DAMAGED as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"{name} is not a .npz file of plain arrays: {reason}", hint) from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    import numpy as np

    if member.compress_type not in _METHODS:
        raise ValueError(f"{member.filename} is compressed by method {member.compress_type}")
    with archive.open(member) as file:
        shape, dtype = _header(file)
        if dtype.hasobject:
            raise ValueError(f"{member.filename} holds Python objects")
        size = dtype.itemsize
        for length in shape:
            size *= length
        if size > member.file_size:
            raise ValueError(f"{member.filename} says that it has {size} bytes, and has {member.file_size}")
    with archive.open(member) as file:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    from numpy.lib import format as npy

    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"format {'.'.join(map(str, version))} is not for plain arrays")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype

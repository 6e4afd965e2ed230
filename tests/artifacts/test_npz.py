"""A ``.npz`` file is read within the limits, whatever its list and its headers say."""

import io
import struct
import zipfile

import numpy as np
import pytest

from edgetune import limits
from edgetune.artifacts.npz import read_npz
from edgetune.errors import InputError


def _npy(shape: str, descr: str = "'<f8'", content: bytes = b"") -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def _zip(content: bytes, method: int = zipfile.ZIP_DEFLATED, times: int = 1) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for number in range(times):
            archive.writestr(f"x{number}.npy", content)
    return sink.getvalue()


def _lying(data: bytes) -> bytes:
    """Return a zip whose list says that its one file has 128 bytes."""
    at = data.rindex(b"PK\x01\x02")
    return data[: at + 24] + struct.pack("<I", 128) + data[at + 28 :]


BOMBS = {
    "one large array": (lambda: _zip(_npy("(8000000,)", content=bytes(64_000_000))), "limit array_bytes"),
    "many arrays": (lambda: _zip(_npy("(100000,)", content=bytes(800_000)), times=60), "limit array_bytes"),
    "a header of 10^12 numbers": (lambda: _zip(_npy("(1000000000000,)")), "says that it has 8000000000000 bytes"),
    "a type of nothing": (lambda: _zip(_npy("(1,)", "[()]")), "not a .npz file"),
    "a list that lies": (lambda: _lying(_zip(_npy("(8000000,)", content=bytes(64_000_000)))), "not a .npz file"),
    "Python objects": (lambda: _zip(_npy("(1,)", "'|O'", b"\x80\x04N.")), "holds Python objects"),
    "another compression": (lambda: _zip(_npy("(1,)", content=bytes(8)), zipfile.ZIP_LZMA), "compressed by method 14"),
    "a deep header": (lambda: _zip(_npy("(" * 9000 + ")" * 900)), "not a .npz file"),
    "a long header": (lambda: _zip(_npy("(" + "1," * 30_000 + ")")), "not a .npz file"),
    "no array": (lambda: _zip(b"text"), "not a .npz file"),
    "no zip": (lambda: b"text", "not a .npz file"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_refused(bomb: str) -> None:
    make, words = BOMBS[bomb]
    data = make()
    assert len(data) < 1_000_000
    with pytest.raises(InputError) as caught:
        read_npz(data, name="x.npz", hint="write it with numpy.savez")
    assert words in caught.value.message


def test_arrays_are_read_by_name_and_the_limit_can_be_raised() -> None:
    sink = io.BytesIO()
    np.savez_compressed(sink, x=np.zeros(10_000), y=np.arange(3), z=np.zeros(10_000))
    with limits.limited(array_bytes=1000):
        assert read_npz(sink.getvalue(), name="x", hint="", wanted=("y",).__contains__)["y"].tolist() == [0, 1, 2]
        with pytest.raises(InputError, match="limit array_bytes"):
            read_npz(sink.getvalue(), name="x", hint="")
    with limits.limited(array_bytes=200_000):
        assert sorted(read_npz(sink.getvalue(), name="x", hint="")) == ["x", "y", "z"]

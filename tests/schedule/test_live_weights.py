"""Weights are in memory once they are loaded, read right, and out of it once they are released."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import InputError
from edgetune.stages.schedule import weights
from edgetune.stages.schedule.weights import MappedWeights

SIZE = 32 << 20


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "000.weights"
    path.write_bytes(np.arange(SIZE // 4, dtype=np.uint32).tobytes())
    os.sync()
    return path


def file_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")


def test_weights_are_in_memory_from_load_to_release(stored: Path) -> None:
    before = file_bytes()
    mapped = MappedWeights(stored, SIZE)
    assert file_bytes() - before >= SIZE
    mapped.release(drop_cache=True)
    assert file_bytes() - before < SIZE // 8
    mapped.release(drop_cache=True)


def test_a_tensor_is_a_view_of_its_place_in_the_file(stored: Path) -> None:
    mapped = MappedWeights(stored, SIZE)
    tensor = mapped.tensor(64, "uint32", (2, 3))
    assert tensor.tolist() == [[16, 17, 18], [19, 20, 21]]
    assert not tensor.flags.owndata
    assert not tensor.flags.writeable
    del tensor
    mapped.release(drop_cache=False)


def test_memory_is_given_back_even_where_a_view_is_still_held(stored: Path) -> None:
    before = file_bytes()
    mapped = MappedWeights(stored, SIZE)
    tensor = mapped.tensor(64, "uint32", (2,))
    mapped.release(drop_cache=True)
    assert file_bytes() - before < SIZE // 8
    assert tensor.tolist() == [16, 17]  # read again, from the file


def test_a_kernel_that_cannot_populate_has_its_pages_touched(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    advise = MappedWeights._advise

    def without(self: MappedWeights, advice: int) -> int:
        if advice == weights._MADV_POPULATE_READ:
            weights.ctypes.set_errno(errno.EINVAL)
            return -1
        return advise(self, advice)

    monkeypatch.setattr(MappedWeights, "_advise", without)
    before = file_bytes()
    mapped = MappedWeights(stored, SIZE)
    assert file_bytes() - before >= SIZE
    mapped.release(drop_cache=True)


def test_a_file_that_was_cut_short_is_refused_by_name(stored: Path) -> None:
    os.truncate(stored, SIZE // 2)
    with pytest.raises(InputError, match=rf"{stored} holds {SIZE // 2} bytes where {SIZE} were prepared"):
        MappedWeights(stored, SIZE)


def test_a_file_that_is_cut_short_while_it_is_loaded_fails_and_does_not_crash(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MappedWeights, "_check", lambda self, *_: os.truncate(stored, SIZE // 2))
    monkeypatch.setattr(weights.mmap, "mmap", _map_though_short)
    before = file_bytes()
    with pytest.raises(InputError, match=r"000\.weights: its storage failed, or it was cut short meanwhile"):
        MappedWeights(stored, SIZE)
    assert file_bytes() - before < SIZE // 8


_mmap = weights.mmap.mmap


def _map_though_short(descriptor: int, size: int, *how: int) -> object:
    """Map while the file is still long enough, and cut it short then."""
    with open(f"/proc/self/fd/{descriptor}", "rb+") as file:
        file.truncate(size)
        mapping = _mmap(descriptor, size, *how)
        file.truncate(size // 2)
    return mapping


def test_a_file_that_has_changed_since_it_was_checked_is_refused(stored: Path) -> None:
    changed_ns = stored.stat().st_mtime_ns
    MappedWeights(stored, SIZE, changed_ns).release(drop_cache=False)
    os.utime(stored, ns=(changed_ns, changed_ns + 1))
    with pytest.raises(InputError, match="has changed since its hash was checked"):
        MappedWeights(stored, SIZE, changed_ns)

"""A file is replaced whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from edgetune.artifacts import file_operations
from edgetune.artifacts.files import write_atomically
from edgetune.artifacts.output_folder import partial_name
from edgetune.errors import InputError
from edgetune.workflows.output import Target


def test_it_replaces_and_keeps_the_permissions(tmp_path: Path) -> None:
    target = tmp_path / "plan.yaml"
    target.write_bytes(b"old")
    target.chmod(0o640)
    write_atomically(b"new", target)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_partial_file_of_an_earlier_crash_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / partial_name()).write_bytes(b"half of something longer")
    Target(tmp_path / "a").check()
    write_atomically(b"new", tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_keeps_pointing_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(b"new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("step", ["create", "write", "sync", "rename"])
@pytest.mark.parametrize(
    ("code", "words"),
    [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only"), (errno.EACCES, "no permission"), (errno.EIO, "-o")],
)
def test_a_failure_keeps_the_old_file_and_removes_the_partial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, words: str
) -> None:
    target = tmp_path / "a.parquet"
    target.write_bytes(b"old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(file_operations, step, fail)
    with pytest.raises(InputError, match="cannot be written") as caught:
        write_atomically(b"new", target)
    monkeypatch.undo()
    assert words in caught.value.hint
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.parquet": b"old"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(InputError, match="cannot be written"):
            write_atomically(b"new", tmp_path / "a")
    finally:
        tmp_path.chmod(0o755)

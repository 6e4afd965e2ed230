"""A file is replaced whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from edgetune.artifacts import file_operations
from edgetune.artifacts.files import write_atomically
from edgetune.errors import InputError
from edgetune.workflows.output import Target


def test_it_writes_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_atomically(b"new", tmp_path / "a.parquet")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a.parquet": b"new"}


def test_it_replaces_and_keeps_the_permissions(tmp_path: Path) -> None:
    target = tmp_path / "plan.yaml"
    target.write_bytes(b"old")
    target.chmod(0o640)
    write_atomically(b"new", target)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o640


def test_a_partial_file_of_an_earlier_crash_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".edgetune-0.partial").mkdir()
    (tmp_path / ".edgetune-0.partial/a").write_bytes(b"half of something longer")
    Target(tmp_path / "a").check()
    write_atomically(b"new", tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_link_keeps_pointing_to_the_file_that_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(b"new", tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_device_is_written_directly() -> None:
    write_atomically(b"new", "/dev/null")
    assert not Path("/dev/null").is_file()


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


def test_an_interrupt_removes_the_partial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(file_operations, "sync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(b"new", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written") as caught:
        write_atomically(b"new", tmp_path / "nowhere" / "a")
    assert "folder does not exist" in caught.value.hint


def test_a_folder_is_no_target(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_atomically(b"new", tmp_path)
    assert "name a file in it" in caught.value.hint


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(InputError, match="cannot be written"):
            write_atomically(b"new", tmp_path / "a")
    finally:
        tmp_path.chmod(0o755)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        write_atomically(b"new", "/dev/full")
    assert "disk is full" in caught.value.hint

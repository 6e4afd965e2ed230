"""What containers and network folders may lack: a home folder, a name of the user, and file locks."""

import errno
import fcntl
import os
import pwd
from pathlib import Path

import pytest

from edgetune.artifacts.output_file import sweep
from edgetune.errors import InputError
from edgetune.processes import file_lock
from edgetune.processes.user_folders import temporary_folder, user_folder


@pytest.fixture
def nameless(tmp_path, monkeypatch):
    """A user without HOME and without an entry in the list of users."""

    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize("kind", ["cache", "config", "state"])
def test_the_folder_of_a_kind_of_files(nameless, monkeypatch, kind):
    below = {"cache": ".cache", "config": ".config", "state": ".local/state"}[kind]
    assert user_folder(kind, "part") == temporary_folder() / kind / "part"
    assert temporary_folder().stat().st_mode & 0o777 == 0o700
    monkeypatch.setenv("HOME", "/home/me")
    for named, folder in ((None, f"/home/me/{below}"), ("relative", f"/home/me/{below}"), ("/named", "/named")):
        if named is not None:
            monkeypatch.setenv(f"XDG_{kind.upper()}_HOME", named)
        assert user_folder(kind, "part") == Path(folder, "edgetune", "part")


def test_a_temporary_folder_of_another_is_not_used(nameless):
    temporary_folder().symlink_to(nameless)
    with pytest.raises(InputError) as found:
        user_folder("cache")
    assert found.value.hint == "set XDG_CACHE_HOME or TMPDIR to a folder"


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_folder_without_locks_is_reported_once(tmp_path, monkeypatch, capsys, code):
    def refuse(descriptor, operation):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(file_lock, "_reported", set())
    partial = tmp_path / ".edgetune-of-another.partial"
    partial.mkdir()
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert [file_lock.try_lock(folder), file_lock.try_lock(folder)] == [True, True]
        assert not file_lock.try_lock(folder, unsupported=False)
        sweep(tmp_path, ".edgetune-", ".partial")
    finally:
        os.close(folder)
    assert partial.exists(), "a run may be writing it"
    assert capsys.readouterr().err == (
        f"warning: {tmp_path} has no file locks ({os.strerror(code)}): run one edgetune at a time there\n"
    )

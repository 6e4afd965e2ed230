"""Outputs and whoever else writes them: links that appear, other runs, files of other users."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from edgetune.artifacts import file_operations, output_file
from edgetune.artifacts.files import write_atomically, writing
from edgetune.cli.screen import report_moved
from edgetune.errors import InputError
from edgetune.workflows.output import Target, begin_outputs


@pytest.fixture(autouse=True)
def command():
    begin_outputs()
    yield
    begin_outputs()


def listed(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and not path.is_symlink()}


def test_a_link_that_appears_meanwhile_is_not_followed(tmp_path):
    """A model plants it while it runs: the result goes beside it."""
    victim, target = tmp_path / "shadow", tmp_path / "out.parquet"
    victim.write_bytes(b"secret")
    Target(target).check()
    target.symlink_to(victim)
    assert write_atomically(b"new", target) == tmp_path / "out-2.parquet"
    assert listed(tmp_path) == {"shadow": b"secret", "out-2.parquet": b"new"}
    assert os.readlink(target) == str(victim)


def test_a_link_that_appears_meanwhile_is_itself_replaced_with_force(tmp_path):
    victim, target = tmp_path / "shadow", tmp_path / "out.parquet"
    victim.write_bytes(b"secret")
    Target(target).check(overwrites=True)
    target.symlink_to(victim)
    write_atomically(b"new", target)
    assert listed(tmp_path) == {"shadow": b"secret", "out.parquet": b"new"}


def test_a_link_that_was_there_before_keeps_pointing(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.parquet").symlink_to("real/a.parquet")
    Target(tmp_path / "link.parquet").check()
    write_atomically(b"new", tmp_path / "link.parquet")
    assert (tmp_path / "real" / "a.parquet").read_bytes() == b"new"
    assert (tmp_path / "link.parquet").is_symlink()


def test_links_in_a_circle_are_an_error(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError):
        write_atomically(b"new", tmp_path / "a")


def test_the_later_of_two_runs_goes_to_a_free_name_and_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(output_file, "on_moved", report_moved)  # as the command and the Python interface do
    target, free = tmp_path / "run.parquet", tmp_path / "run-2.parquet"
    target.write_bytes(b"before")
    Target(target).check()
    target.unlink()
    target.write_bytes(b"of another run")
    assert write_atomically(b"mine", target) == free
    assert listed(tmp_path) == {"run.parquet": b"of another run", "run-2.parquet": b"mine"}
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith(f"warning: {target} was written by another program")
    assert str(free) in said
    assert Target(target).file == str(free)
    assert write_atomically(b"mine again", target) == free
    assert free.read_bytes() == b"mine again"
    assert capsys.readouterr().err == ""


def test_two_runs_that_began_without_a_file_keep_both(tmp_path):
    target = tmp_path / "run.parquet"
    first, second = output_file.note(target), output_file.OutputFile(target)
    first.write(b"first")
    second.write(b"second")
    assert listed(tmp_path) == {"run.parquet": b"first", "run-2.parquet": b"second"}


def test_a_run_may_write_its_own_file_again(tmp_path):
    Target(tmp_path / "a").check()
    for data in (b"1", b"22", b"333"):
        write_atomically(data, tmp_path / "a")
    assert listed(tmp_path) == {"a": b"333"}


def test_permissions_are_those_of_a_new_file_or_of_the_old_one(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(b"new", tmp_path / "a")
        with writing(tmp_path / "b") as output, output.written_by_path() as path:
            path.write_bytes(b"new")
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"} == {0o640}
    (tmp_path / "a").chmod(0o6604)
    write_atomically(b"newer", tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o604


def test_a_hard_link_of_a_file_elsewhere_keeps_what_it_has(tmp_path):
    (tmp_path / "elsewhere").write_bytes(b"secret")
    os.link(tmp_path / "elsewhere", tmp_path / "a")
    write_atomically(b"new", tmp_path / "a")
    assert listed(tmp_path) == {"elsewhere": b"secret", "a": b"new"}


def test_a_name_without_ending_gets_a_number(tmp_path):
    for name, free in (("run", "run-2"), (".run", ".run-2"), ("a.b.c", "a.b-2.c")):
        Target(tmp_path / name).check()
        (tmp_path / name).write_bytes(b"of another run")
        assert write_atomically(b"mine", tmp_path / name) == tmp_path / free


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


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        write_atomically(b"new", "/dev/full")
    assert "disk is full" in caught.value.hint


OTHER = 12345


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")
@pytest.mark.parametrize("how", ["planted", "swapped"])
def test_a_link_of_another_user_in_place_of_a_temporary_leads_to_no_file(how):
    """A user writes into a folder that everybody may write into, and another one plants links to a folder of hers."""
    with tempfile.TemporaryDirectory() as name:
        shared, victim = Path(name, "shared"), Path(name, "victim")
        for folder, mode in ((Path(name), 0o755), (shared, 0o777), (victim, 0o755)):
            folder.mkdir(exist_ok=True)
            folder.chmod(mode)
        (victim / "a").write_bytes(b"secret")
        for path in (victim, victim / "a"):
            os.chown(path, OTHER, OTHER)
        for each in ("a.partial", ".a.partial", ".edgetune-0.partial"):
            (shared / each).symlink_to(victim)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setresuid(OTHER, OTHER, OTHER)
                Target(shared / "a").check()
                with writing(shared / "a") as output, output.written_by_path() as path:
                    if how == "swapped":
                        folder = next(each for each in shared.glob(".edgetune-*") if not each.is_symlink())
                        folder.rename(shared / "aside")
                        folder.symlink_to(victim)
                    path.write_bytes(b"new")
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (victim / "a").read_bytes() == b"secret"
        assert (shared / "a").read_bytes() == b"new"

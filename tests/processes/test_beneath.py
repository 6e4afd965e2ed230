"""Files are opened beneath a folder or not at all."""

import errno
import os

import pytest

from edgetune.processes.private_folder import open_beneath


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/file").write_text("inside")
    (tmp_path / "outside").write_text("outside")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("outside")
    return tmp_path / "in"


def text(descriptor):
    with open(descriptor) as file:
        return file.read()


def test_a_file_is_read_and_made_and_no_program_inherits_it(tree):
    assert text(open_beneath(tree, "deep/file", os.O_RDONLY)) == "inside"
    made = open_beneath(tree, "deep/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    assert not os.get_inheritable(made)
    os.close(made)
    assert (tree / "deep/new").stat().st_mode & 0o777 == 0o640 & ~_umask()
    with pytest.raises(FileExistsError):
        open_beneath(tree, "deep/new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
    with pytest.raises(FileNotFoundError):
        open_beneath(tree, "deep/none", os.O_RDONLY)


def _umask():
    old = os.umask(0)
    os.umask(old)
    return old


@pytest.mark.parametrize("links", [False, True])
@pytest.mark.parametrize(
    "path", ["../outside", "deep/../../outside", "/etc/passwd", "out", "elsewhere/file", "absolute"]
)
def test_nothing_leads_out(tree, path, links):
    (tree / "out").symlink_to("../outside")
    (tree / "elsewhere").symlink_to("../folder")
    (tree / "absolute").symlink_to(tree / "../outside")
    with pytest.raises(OSError) as refused:  # noqa: PT011 -- the number is what counts
        open_beneath(tree, path, os.O_RDONLY, links=links)
    assert refused.value.errno in (errno.EXDEV, errno.ELOOP, errno.ENOTDIR)


def test_links_within_are_followed_where_that_is_asked_for(tree):
    (tree / "class").mkdir()
    (tree / "class/device").symlink_to("../deep")
    (tree / "class/last").symlink_to("../deep/file")
    for path in ("class/device/file", "class/last"):
        assert text(open_beneath(tree, path, os.O_RDONLY, links=True)) == "inside"
        with pytest.raises(OSError) as refused:  # noqa: PT011
            open_beneath(tree, path, os.O_RDONLY)
        assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)


def test_links_of_the_kernel_into_other_processes_are_not_followed():
    with pytest.raises(OSError) as refused:  # noqa: PT011
        open_beneath(__import__("pathlib").Path("/proc"), "self/root/etc/passwd", os.O_RDONLY, links=True)
    assert refused.value.errno in (errno.ELOOP, errno.EXDEV)

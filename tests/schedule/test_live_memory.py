"""Memory for real: a limit that the kernel keeps, and weights mapped and given back."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgetune.errors import DeviceError, InputError
from edgetune.stages.schedule import cgroups, weights
from edgetune.stages.schedule.cgroups import make_limit
from edgetune.stages.schedule.weights import MappedWeights

MIB = 1 << 20
LIMIT = 64 * MIB


def program(body: str) -> subprocess.Popen[str]:
    """Start a program that waits for a line before it does something, so that it can be put under a limit."""
    return subprocess.Popen(
        [sys.executable, "-c", f"input()\n{body}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def real_limit(*, swap_bytes: int | None = None) -> cgroups.MemoryLimit:
    limit = make_limit(LIMIT, swap_bytes=swap_bytes)
    if limit.enforced == "accounted":
        pytest.skip(f"no control group can be made here: {limit.reason}")
    return limit


def test_the_kernel_ends_a_process_above_its_limit_and_counts_it() -> None:
    with real_limit(swap_bytes=0) as limit:
        process = program(f"x = bytearray({2 * LIMIT}); print('survived')")
        limit.admit(process.pid)
        said, _ = process.communicate("\n", timeout=60)
        figures = limit.figures()
    assert process.returncode == -9
    assert said == ""
    assert figures.kills == 1
    assert figures.peak_bytes is not None
    assert LIMIT * 0.9 < figures.peak_bytes <= LIMIT


def test_a_group_is_removed_with_what_still_runs_in_it() -> None:
    with real_limit() as limit:
        process = program("import time; time.sleep(600)")
        limit.admit(process.pid)
        path = getattr(limit, "_path")  # noqa: B009 -- of a group; nobody else needs to know where it is
        assert path.is_dir()
    assert process.wait(timeout=60) == -9
    assert not path.exists()
    process.communicate()


def test_groups_that_a_crash_has_left_are_removed_by_the_next_run() -> None:
    limit = real_limit()
    with limit:
        parent = getattr(limit, "_path").parent  # noqa: B009
        ended = subprocess.Popen([sys.executable, "-c", ""])
        ended.wait()
        left = parent / f"edgetune-{ended.pid}-0"
        left.mkdir()
        with real_limit():
            pass
    assert not left.exists()


def fake_root(tmp_path: Path, *, mounts: str, own: str) -> Path:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(mounts)
    (tmp_path / "proc/self/cgroup").write_text(own)
    return tmp_path


V2 = "31 24 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"


def test_of_version_2_a_sibling_is_made_where_the_own_group_holds_processes(tmp_path: Path) -> None:
    root = fake_root(tmp_path, mounts=V2, own="0::/user.slice/session.scope\n")
    above = root / "sys/fs/cgroup/user.slice"
    (above / "session.scope").mkdir(parents=True)
    (above / "session.scope/cgroup.subtree_control").write_text("\n")
    (above / "cgroup.subtree_control").write_text("cpu memory pids\n")
    limit = make_limit(LIMIT, swap_bytes=0, root=root)
    assert limit.enforced == "cgroup-v2"
    (made,) = above.glob("edgetune-*")
    assert (made / "memory.max").read_text() == str(LIMIT)
    (made / "memory.peak").write_text("1000\n")
    (made / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n")
    (made / "memory.stat").write_text("anon 5\npgmajfault 11\n")
    (made / "memory.swap.current").write_text("12\n")
    limit.admit(4711)
    assert (made / "cgroup.procs").read_text() == "4711"
    assert limit.figures() == cgroups.CgroupFigures(1000, 12, 11, 7, 1)


def test_of_version_1_swap_is_limited_together_with_memory(tmp_path: Path) -> None:
    mounts = "36 25 0:31 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    root = fake_root(tmp_path, mounts=mounts, own="4:memory:/docker/abc\n0::/\n")
    parent = root / "sys/fs/cgroup/memory"
    parent.mkdir(parents=True)
    limit = make_limit(LIMIT, root=root)
    assert limit.enforced == "cgroup-v1"
    (made,) = parent.glob("edgetune-*")
    assert (made / "memory.limit_in_bytes").read_text() == str(LIMIT)
    assert not (made / "memory.memsw.limit_in_bytes").exists()


def test_a_folder_that_is_not_this_users_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    root = fake_root(tmp_path, mounts=V2, own="0::/\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cgroup.subtree_control").write_text("memory\n")
    monkeypatch.setattr(Path, "mkdir", _refuse)
    limit = make_limit(LIMIT, root=root)
    assert limit.enforced == "accounted"
    assert limit.reason is not None
    assert limit.reason.endswith("sys/fs/cgroup: Permission denied")


def _refuse(self: Path) -> None:
    raise PermissionError(13, "Permission denied")


BUSCTL = """#!{python}
import pathlib, sys
root = pathlib.Path({root!r})
words = [word for word in sys.argv[1:] if word != "--user"]
if words[0] == "call":
    name, pid = words[6], words[words.index("PIDs") + 3]
    (root / "asked").write_text(" ".join(words[4:]))
    (root / "sys/fs/cgroup/user.slice" / name).mkdir(parents=True)
    (root / "proc" / pid).mkdir(parents=True)
    (root / "proc" / pid / "cgroup").write_text(f"0::/user.slice/{{name}}\\n")
"""


def root_with_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = fake_root(tmp_path, mounts=V2, own="0::/user.slice/session.scope\n")
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "sys/fs/cgroup/cgroup.controllers").write_text("cpu memory pids\n")
    (root / "bin").mkdir()
    (root / "bin/busctl").write_text(BUSCTL.format(python=sys.executable, root=str(root)))
    (root / "bin/busctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{root}/bin")
    return root


def test_systemd_is_asked_for_a_scope_where_no_group_is_delegated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = root_with_systemd(tmp_path, monkeypatch)
    limit = make_limit(LIMIT, swap_bytes=0, root=root)
    with limit:
        assert limit.enforced == "cgroup-v2"
        limit.admit(4711)
        asked = (root / "asked").read_text().split()
        assert asked[:2] == ["StartTransientUnit", "ssa(sv)a(sa(sv))"]
        assert asked[3:] == f"fail 3 PIDs au 1 4711 MemoryMax t {LIMIT} MemorySwapMax t 0 0".split()
        scope = next((root / "sys/fs/cgroup/user.slice").iterdir())
        (scope / "memory.peak").write_text("2000\n")
        assert limit.figures().peak_bytes == 2000


@pytest.mark.parametrize("kills", [0, 1])
def test_kills_in_a_scope_that_is_gone_are_those_that_the_group_above_has_counted_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    root = root_with_systemd(tmp_path, monkeypatch)
    above = root / "sys/fs/cgroup/user.slice"
    above.mkdir()
    (above / "memory.events").write_text("max 9\noom_kill 3\n")
    with make_limit(LIMIT, root=root) as limit:
        limit.admit(4711)
        (scope,) = above.glob("edgetune-*.scope")
        (scope / "memory.peak").write_text("2000\n")
        assert limit.figures() == cgroups.CgroupFigures(peak_bytes=2000)
        (scope / "memory.peak").unlink()
        scope.rmdir()
        (above / "memory.events").write_text(f"max 10\noom_kill {3 + kills}\n")
        assert limit.figures() == cgroups.CgroupFigures(peak_bytes=2000, kills=kills)
    assert limit.figures().kills == kills


def test_a_process_that_cannot_enter_is_reported_with_its_group() -> None:
    with real_limit() as limit:
        process = subprocess.Popen([sys.executable, "-c", ""])
        process.wait()
        with pytest.raises(DeviceError, match=f"process {process.pid} cannot enter .*edgetune-{os.getpid()}-"):
            limit.admit(process.pid)


SIZE = 32 << 20


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "000.weights"
    path.write_bytes(np.arange(SIZE // 4, dtype=np.uint32).tobytes())
    os.sync()
    return path


def file_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[2]) * os.sysconf("SC_PAGE_SIZE")


def test_weights_are_in_memory_from_load_to_release_even_where_a_view_is_still_held(stored: Path) -> None:
    before = file_bytes()
    mapped = MappedWeights(stored, SIZE)
    assert file_bytes() - before >= SIZE
    tensor = mapped.tensor(64, "uint32", (2,))
    mapped.release(drop_cache=True)
    assert file_bytes() - before < SIZE // 8
    assert tensor.tolist() == [16, 17]  # read again, from the file
    mapped.release(drop_cache=True)


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

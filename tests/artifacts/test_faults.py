"""Every output with a fault at every operation, as SQLite is tested: the old file or the new one, and the error tells.

Each output is written once to count its operations, then once per operation and kind of fault, over no file and over an
old one.
"""

import functools
import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from edgetune.artifacts import io, output_file
from edgetune.artifacts.files import write_atomically, writing
from edgetune.artifacts.io import read_any
from edgetune.artifacts.kinds import ENDINGS, KINDS
from edgetune.errors import InputError
from edgetune.plotting import figure_file
from edgetune.stages.interleave.sessions import TrainingSession
from edgetune.workflows.output import Target
from fakes.file_faults import FAULTS, NAMES, Crash, Faults

GOLDEN = Path(__file__).parents[1] / "golden"
ARTIFACTS = {
    path.name.partition("-v")[0]: path for path in sorted(GOLDEN.iterdir()) if path.suffix in (".parquet", ".yaml")
}
"""The newest golden file of each kind."""


def artifact_writers():
    for kind, path in ARTIFACTS.items():
        for ending in ENDINGS[kind]:
            yield f"{kind}{ending}", lambda target, path=path: io.write(artifact(path), target)


@functools.cache
def artifact(path):
    return read_any(str(path))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Make the bytes of a figure once: they are the same for every fault."""
    monkeypatch.setattr(figure_file, "figure_bytes", once(figure_file.figure_bytes))


def once(real):
    made = {}

    def cached(it, form=None):
        if form not in made:
            made[form] = real(it, form)
        return made[form]

    return cached


def figure_writers():
    from matplotlib.figure import Figure

    from edgetune.cli.plot import write_drawing
    from edgetune.cli.screen import Screen

    drawn = Figure()
    drawn.subplots().plot([1, 2])
    for ending in (".svg", ".png", ".pdf"):
        yield f"figure{ending}", lambda target: write_drawing(lambda: drawn, str(target), Screen(True))
    page = b'<meta name="generator" content="edgetune">'
    yield "figure.html", lambda target: write_drawing(lambda: page, str(target), Screen(True))


def checkpoint(target):
    def save(path):
        Path(path).write_bytes(b"weights")

    return TrainingSession(lambda: None, save, target).save()


def network(target):
    from onnx import helper

    from edgetune.workloads.model_storage import save_model

    save_model(helper.make_model(helper.make_graph([], "g", [], []), producer_name="edgetune"), target)


WRITERS = {**dict(artifact_writers()), **dict(figure_writers()), "checkpoint.pt": checkpoint, "network.onnx": network}


def test_every_kind_of_artifact_is_among_them():
    assert set(KINDS) <= set(ARTIFACTS)


@pytest.fixture(autouse=True)
def none_open():
    output_file.forget_noted()
    yield
    output_file.forget_noted()


def partials(folder):
    return [path.name for path in folder.iterdir() if ".edgetune-" in path.name]


def new_of(writer, folder, name):
    path = folder / f"reference-{name}"
    writer(path)
    return path.read_bytes()


@pytest.mark.parametrize("name", WRITERS)
def test_a_fault_leaves_the_old_file_or_the_new_one_and_the_error_tells_which(tmp_path, name):
    writer, target = WRITERS[name], tmp_path / name
    new = new_of(writer, tmp_path, name)
    faults = FAULTS if name in ("run.parquet", "checkpoint.pt") else ("EIO", "half", "crash")
    for old, fault in itertools.product((None, b"the old file"), faults):
        for at in itertools.count():
            target.unlink(missing_ok=True)
            if old is not None:
                target.write_bytes(old)
            if not one_fault(writer, target, at, fault, old=old, new=new):
                break
        assert at > 4, "create, write, sync, rename and the folder's sync at least"


def one_fault(writer, target, at, fault, *, old, new):
    """Write with one fault and judge what is there; return whether there was such an operation."""
    output_file.forget_noted()
    error = None
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, at, fault)
        try:
            writer(target)
        except (InputError, Crash) as raised:
            error = raised
    found = target.read_bytes() if target.exists() else None
    where = f"{fault} at {at}: {faults.done}"
    assert found in (old, new), where
    if error is None:
        assert found == new, where
    elif isinstance(error, InputError):
        assert ("is written, but" in error.message) == (found == new), (where, error.message)
        assert ("unchanged" in error.message) == (found == old is not None), (where, error.message)
        assert error.hint
    if isinstance(error, Crash):
        Target(target).check()  # how the next command begins
    assert partials(target.parent) == [], where
    return faults.hit


@pytest.mark.parametrize("old", [None, b"old"])
def test_a_run_killed_at_any_operation_leaves_a_whole_file_and_the_next_run_cleans_up(tmp_path, old):
    target = tmp_path / "run.parquet"
    program = """
import os, signal, sys
from edgetune.artifacts import file_operations
from edgetune.artifacts.files import write_atomically
left = int(sys.argv[2])
def wrapped(real):
    def operation(*args, **kwargs):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return real(*args, **kwargs)
    return operation
for name in sys.argv[3:]:
    setattr(file_operations, name, wrapped(getattr(file_operations, name)))
write_atomically(b"new file", sys.argv[1])
"""
    seen = set()
    for at in range(12):
        target.unlink(missing_ok=True)
        if old is not None:
            target.write_bytes(old)
        ended = subprocess.run([sys.executable, "-c", program, str(target), str(at), *NAMES], check=False)
        found = target.read_bytes() if target.exists() else None
        assert found in (old, b"new file")
        seen.add(found)
        left = partials(tmp_path)
        Target(target).check()
        assert partials(tmp_path) == []
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
        assert left or found == b"new file" or at == 0
    assert seen == {old, b"new file"}


def test_a_partial_file_that_another_run_is_writing_stays(tmp_path):
    with writing(tmp_path / "a") as output, output.written_by_path() as path:
        path.write_bytes(b"half")
        Target(tmp_path / "b").check()
        write_atomically(b"b", tmp_path / "b")
        assert path.exists()
    assert (tmp_path / "a").read_bytes() == b"half"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("old", [None, b"old"])
def test_a_disk_that_is_really_full(tmp_path, old):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        target = disk / "run.parquet"
        if old is not None:
            target.write_bytes(old)
        with pytest.raises(InputError) as caught:
            write_atomically(bytes(1 << 17), target)
        assert "No space left" in caught.value.message
        assert "disk is full" in caught.value.hint
        assert (target.read_bytes() if target.exists() else None) == old
        assert partials(disk) == []
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder prepared once, whose files stand for those of every later one."""
    from onnx import TensorProto, helper, save_model

    from edgetune.workloads.partition.check import PrepareOptions
    from edgetune.workloads.partition.prepare import prepare
    from edgetune.workloads.resolve import resolve

    folder = tmp_path_factory.mktemp("made")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "net.onnx")
    workload = resolve(str(folder / "net.onnx"))
    return workload, prepare(workload, PrepareOptions(), folder / "net").folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else None


@pytest.mark.parametrize("fault", ["EIO", "late EIO", "crash"])
@pytest.mark.parametrize("exists", [False, True])
def test_a_prepared_folder_is_the_old_one_or_the_new_one(prepared, tmp_path, monkeypatch, fault, exists):
    from edgetune.workloads.partition import check
    from edgetune.workloads.partition import prepare as preparing

    workload, made = prepared

    def write_contents(folder, *_):
        shutil.copytree(made, folder, dirs_exist_ok=True)
        (folder / "new").write_bytes(b"")

    monkeypatch.setattr(preparing, "write_contents", write_contents)
    target = tmp_path / "net"
    old, new = contents(made) if exists else None, {**contents(made), "new": b""}
    for at in itertools.count():
        shutil.rmtree(target, ignore_errors=True)
        if exists:
            shutil.copytree(made, target)
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, at, fault)
            try:
                preparing.prepare(workload, check.PrepareOptions(), target)
                assert not faults.hit
            except (InputError, Crash):
                assert faults.hit
        assert contents(target) in (old, new), f"{fault} at {at}: {faults.done}"
        assert [path.name for path in tmp_path.iterdir() if path != target] == []
        if not faults.hit:
            break
    assert contents(target) == new
    assert "put_folder" in faults.done

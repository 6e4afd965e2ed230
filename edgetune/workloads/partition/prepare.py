"""From a model to a prepared folder: written beside its place, and put there in one step when it is whole."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path

from edgetune.artifacts import file_operations
from edgetune.artifacts.file_names import require_utf8
from edgetune.errors import InputError
from edgetune.workloads.partition.contents import write_contents
from edgetune.workloads.partition.optimised import runtime_version
from edgetune.workloads.partition.options import PrepareOptions
from edgetune.workloads.prepared import Prepared, is_prepared, open_prepared
from edgetune.workloads.processor import processor_kind
from edgetune.workloads.workload import Workload

__all__ = ["PrepareOptions", "kept", "prepare"]


def kept(workload: Workload, options: PrepareOptions, target: Path) -> Prepared | None:
    """Return what is in the target folder where it was made from the same model with the same options.

    Args:
        workload: See ``prepare``.
        options: How it would be cut now.
        target: The folder; there may be none.

    Raises:
        InputError: it holds something else, which is not overwritten; or it is damaged.
        DeviceError: ONNX Runtime is missing.
    """
    if not target.exists():
        return None
    _refuse_other(target)
    found = open_prepared(target)
    differing = [
        *(["the model"] if found.source_sha256 != workload.sha256 else []),
        *(["the batch size"] if found.batch_size != options.batch_size else []),
        *(key for key, value in options.document().items() if found.options.get(key) != value),
        *(key for key, value in _runtime().items() if found.runtime.get(key) != value),
    ]
    if differing:
        raise InputError(
            f"{target} was prepared otherwise: {', '.join(differing)}",
            "edgetune schedule prepare --fresh replaces it; -o DIR puts another beside it",
        )
    return found


def prepare(workload: Workload, options: PrepareOptions, target: Path) -> Prepared:
    """Cut a network into layers and put them into a folder, in place of a prepared one that is there.

    Args:
        workload: A network of the zoo or an ONNX file.
        options: How.
        target: The folder; it appears in one step, when everything in it is written.

    Raises:
        InputError: the network cannot be cut so, or the folder cannot be written or holds something else.
        DeviceError: ONNX Runtime is missing.
    """
    require_utf8(target)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        if target.exists():
            _refuse_other(target)
        _sweep(target)
        shutil.rmtree(partial, ignore_errors=True)  # of a process of the same number, long ended
        partial.mkdir(parents=True)
        write_contents(partial, workload, options, _runtime())
        for path in partial.iterdir():
            _sync(path)
        _sync(partial)
        file_operations.put_folder(partial, target)
        _sync(target.parent)
    except OSError as error:
        raise InputError(
            f"{target} cannot be written: {error.strerror or error}",
            "check the folder, its permissions and the free space: four times the weights",
        ) from None
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return open_prepared(target)


def _sweep(target: Path) -> None:
    """Remove what processes have left that were killed; what others prepare at the moment stays."""
    for left in target.parent.glob(f".{glob.escape(target.name)}.*.partial"):
        pid = left.name.removesuffix(".partial").rpartition(".")[2]
        if pid.isdecimal() and not _runs(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def _sync(path: Path) -> None:
    """Force a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        file_operations.sync(descriptor)
    finally:
        os.close(descriptor)


def _runs(pid: int) -> bool:
    """Return whether there is a process of this number, anybody's."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _refuse_other(target: Path) -> None:
    if not is_prepared(target):
        raise InputError(f"{target} exists and is no prepared network", "choose another folder with -o")


def _runtime() -> dict[str, str]:
    return {"onnxruntime": runtime_version(), "processor": processor_kind()}

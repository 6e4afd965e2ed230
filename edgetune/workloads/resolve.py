"""Resolution of a reference to a workload: a zoo network, an ONNX or Python file, a peak kernel, a language model."""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import replace
from functools import cache
from pathlib import Path

from edgetune.artifacts.file_names import as_found, storable
from edgetune.errors import InputError
from edgetune.workloads.batch import Axes
from edgetune.workloads.foreign_files import refuse_foreign, refuse_script
from edgetune.workloads.kernels import PREFIX, resolve_kernel
from edgetune.workloads.llm import PREFIX as LLM
from edgetune.workloads.llm import resolve_llm
from edgetune.workloads.model_limits import refuse_malformed
from edgetune.workloads.workload import Workload

_ZOO = "zoo:"
_CHUNK_BYTES = 1 << 20


def resolve(reference: str, batch_axes: Axes | None = None) -> Workload:
    """Return the workload named by ``reference``.

    Args:
        reference: ``zoo:resnet18``, a path to an ONNX file (any suffix), a path to a ``.py`` file, a peak kernel:
            ``kernel:matmul:4096``, ``kernel:relu:8192:fp16`` (see ``kernels``), or the configuration of a language
            model: ``llm:config.json`` (see ``llm``).
        batch_axes: See ``Workload``.

    Raises:
        InputError: the zoo network or kernel is unknown; the file is missing, unreadable, empty, a folder or of another
            kind; batch axes are given for a workload without a graph.
    """
    found = _resolve(reference)
    if batch_axes is None:
        return found
    if found.kind not in ("zoo", "onnx"):
        raise InputError(f"--batch-axis: {reference} has no graph with inputs", "leave --batch-axis out")
    return replace(found, batch_axes=batch_axes)


def names_path(reference: str) -> bool:
    """Return whether ``reference`` is a path: one that begins with ``zoo:`` is not, ``./zoo:`` is."""
    return not reference.startswith((_ZOO, PREFIX, LLM))


def _resolve(reference: str) -> Workload:
    if reference.startswith(_ZOO):
        return _resolve_zoo(reference)
    if reference.startswith(PREFIX):
        return resolve_kernel(reference)
    if reference.startswith(LLM):
        return resolve_llm(reference)
    path = Path(as_found(reference))
    _require_file(path, reference)
    if path.suffix == ".py":
        refuse_script(path, reference)
        return Workload(reference, storable(path.stem), "python", path, _file_hash(path).hexdigest())
    refuse_foreign(path, reference)
    try:
        sha256 = _onnx_hash(path)
    except InputError:
        refuse_foreign(path, reference, by_name=True)
        raise
    return Workload(reference, storable(path.stem), "onnx", path, sha256)


def _resolve_zoo(reference: str) -> Workload:
    from edgetune.workloads import zoo

    name = reference[len(_ZOO) :]
    if name not in zoo.NETWORKS:
        near = difflib.get_close_matches(name, zoo.NETWORKS, 1)
        listed = f"the zoo has {', '.join(zoo.NETWORKS)}"
        raise InputError(
            f"there is no network {name!r} in the zoo", f"did you mean {_ZOO}{near[0]}? {listed}" if near else listed
        )
    return Workload(reference, name, "zoo", None, _zoo_hash(name))


@cache
def _zoo_hash(name: str) -> str:
    """Return the hash of a zoo network's definition: its graph and the shapes of its weights."""
    from edgetune.workloads import zoo

    return hashlib.sha256(zoo.weightless(name).SerializeToString(deterministic=True)).hexdigest()


def _require_file(path: Path, reference: str) -> None:
    try:
        if path.is_dir():
            refuse_foreign(path, reference, by_name=True)
            raise InputError(f"{reference} is a folder, not a model", _folder_hint(path))
        if not path.exists():
            raise InputError(f"there is no file {reference}", _missing_hint(reference))
        if path.stat().st_size == 0:
            raise InputError(f"{reference} is empty", "export the model again")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {reference!r}: {reason}", "check the path and its permissions") from None


def _folder_hint(path: Path) -> str:
    """Return the hint that names a file of a folder."""
    if (path / "manifest.json").is_file():
        return (
            f"a prepared network is run by edgetune schedule run; measure its layers: edgetune schedule profile {path}"
        )
    files = sorted(path.glob("*.onnx"))
    return f"name the ONNX file in it: {files[0]}" if files else "name an ONNX file"


def _missing_hint(reference: str) -> str:
    from edgetune.workloads import zoo

    near = difflib.get_close_matches(reference, zoo.NETWORKS, 1, 0.8)
    if near:
        return f"for the network of the zoo write {_ZOO}{near[0]}"
    return "name an ONNX file, a Python file, a network of the zoo, e.g. zoo:resnet18, or kernel:matmul:4096"


def _onnx_hash(path: Path) -> str:
    """Return the hash of an ONNX file and of the names and sizes of its external weights.

    The weights may be gigabytes and are not read: only changes of their files' sizes change the hash.
    """
    from edgetune.workloads import model_storage
    from edgetune.workloads.onnx_file import parse_model

    model = parse_model(path)
    with refuse_malformed(f"the external weights of {path}"):
        files = model_storage.check_external(model, path.parent)
    digest = _file_hash(path)
    for file in files:
        digest.update(f"\0{file.name}\0{file.stat().st_size}".encode())
    return digest.hexdigest()


def _file_hash(path: Path) -> hashlib._Hash:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest

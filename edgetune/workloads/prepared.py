"""A prepared folder: one network as layers on storage, each a graph without weights and a file of weights.

    alexnet/manifest.json        layers in order, tensors, sizes, hashes
            000-conv1.onnx       a graph whose weights are inputs, opened as a session once
            000-conv1.weights    its weights, mapped while they are needed
            shared-000.weights   a weight that several layers read is stored once, in a file of its own
            whole.onnx ...       the whole network, to compare with

The process that runs networks under a memory limit imports this module: standard library only.
"""

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from edgetune.artifacts.files import require_utf8
from edgetune.errors import InputError
from edgetune.limits import read_file

KIND, VERSION, MANIFEST = "prepared", 1, "manifest.json"
HINT = "edgetune schedule prepare --fresh writes it again"

LayerKind = Literal["conv", "fc", "other"]
FileName = Annotated[str, "in the folder"]
"""The name of a file directly in the folder."""
_ITEM_BYTES = {
    **dict.fromkeys(("bool", "int8", "uint8", "float8_e5m2"), 1),
    **dict.fromkeys(("int16", "uint16", "float16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64"), 8),
}
"""Bytes of the element types of fed weights, by NumPy's names, since this module does not import NumPy."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or output of the network.

    Args:
        name: Name in the graph.
        dtype: NumPy name of the element type.
        shape: Its dimensions.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PreparedWeight:
    """A weight: its place in a file, and the input of the layer's graph that it is fed to.

    Args:
        input: Name of the input.
        file: Name of the file in the folder.
        offset: Its offset in that file, bytes; a multiple of 64.
        dtype: Numpy name of the element type.
        shape: Its dimensions.
    """

    input: str
    file: str
    offset: int
    dtype: str
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        """Its end in that file, bytes."""
        return self.offset + math.prod(self.shape) * _ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class PreparedLayer:
    """One layer.

    Args:
        name: Unique in the network.
        kind: Kind of the operator with its weights.
        graph: Name of its graph's file in the folder.
        weights: Its weights in the order of the graph's inputs, after ``inputs``.
        inputs: Names of the network's inputs and of other layers' outputs that it reads, in the graph's order.
        outputs: Names of its outputs, in the graph's order.
        after: Indices of the layers that compute its inputs, ascending; each is less than its own.
        weight_bytes: Bytes of its weights.
        output_bytes: Bytes of its outputs.
        scratch_bytes: Peak bytes of its internal tensors, without the workspaces of kernels.
        load_s, execute_s: ``None`` until measured (``edgetune schedule profile``), s.
    """

    name: str
    kind: LayerKind
    graph: str
    weights: tuple[PreparedWeight, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    after: tuple[int, ...]
    weight_bytes: int
    output_bytes: int
    scratch_bytes: int
    load_s: float | None = None
    execute_s: float | None = None


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the folder, as recorded in the manifest.

    Args:
        size_bytes: Its length.
        sha256: Hash of its bytes.
    """

    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared network.

    Args:
        folder: Its folder.
        network: Name of the network.
        reference, source_sha256: The model's reference as the user wrote it, and the model's hash.
        batch_size: Samples per request.
        options: Options of the cut; the same options and model give the same layers.
        runtime: Version of the ONNX Runtime that optimised it, and the kind of processor.
        inputs, outputs: Inputs and outputs of the network.
        layers: Layers in topological order.
        input_bytes: Bytes of all inputs together.
        files: Every file of the folder except the manifest, by name.
        whole: Files of the whole network: ``external`` and, unless it would be too large, ``default``.
        difference: Largest difference between the outputs of the layers and of the whole network on random inputs, as a
            share of the largest magnitude; ``None`` if undecidable, or if not compared.
        check_peak_bytes: Most memory of the process that compared them, bytes; ``None`` if unknown, or if not compared.
    """

    folder: Path
    network: str
    reference: str
    source_sha256: str
    batch_size: int
    options: Mapping[str, Any]
    runtime: Mapping[str, str]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    layers: tuple[PreparedLayer, ...]
    input_bytes: int
    files: Mapping[FileName, StoredFile]
    whole: Mapping[str, FileName]
    difference: float | None
    check_peak_bytes: int | None = None

    @property
    def compared(self) -> bool:
        """Whether the layers were compared with the whole network."""
        return (self.difference, self.check_peak_bytes) != (None, None)

    def shared_by(self, layer: PreparedLayer) -> tuple[tuple[str, int], ...]:
        """Return the files among a layer's weights that other layers read too, and their bytes."""
        others = {weight.file for other in self.layers if other is not layer for weight in other.weights}
        found = dict.fromkeys(weight.file for weight in layer.weights if weight.file in others)
        return tuple((file, self.files[file].size_bytes) for file in found)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights; shared weights count once."""
        named = {weight.file for layer in self.layers for weight in layer.weights}
        return sum(self.files[name].size_bytes for name in named)


def open_prepared(folder: Path) -> Prepared:
    """Return the network of a prepared folder after checking that every file exists with its recorded length.

    ``check_file`` checks contents.

    Raises:
        InputError: the folder is not prepared or of another version, the manifest is damaged, a file is missing or
            truncated, or ONNX Runtime cannot open the path.
    """
    require_utf8(folder)
    prepared = _read(folder)
    for name, file in prepared.files.items():
        path = folder / name
        try:
            size_bytes = path.stat().st_size
        except OSError:
            raise InputError(f"{path} is missing", HINT) from None
        if size_bytes != file.size_bytes:
            raise InputError(f"{path} has {size_bytes} bytes, {file.size_bytes} were written", HINT)
    return prepared


def check_file(prepared: Prepared, name: str) -> int:
    """Compare a file with its recorded hash and return its modification time, ns.

    244 MB take 0.2 s on a processor with instructions for SHA-256, otherwise 1 s.

    Args:
        prepared: A result of ``open_prepared``.
        name: Name of a file in its folder.

    Raises:
        InputError: the file cannot be read, or has changed.
    """
    # hashlib loads 3.6 MB with OpenSSL, which the process under a memory limit does not need.
    from edgetune.artifacts.files import file_hash

    path = prepared.folder / name
    try:
        changed_ns = path.stat().st_mtime_ns
        digest = file_hash(path)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}", HINT) from None
    if digest.hexdigest() != prepared.files[name].sha256:
        raise InputError(f"{path} is not what was written: its hash differs", HINT)
    return changed_ns


def check_runtime(prepared: Prepared, version: str, processor: str) -> None:
    """Refuse layers that were optimised by another ONNX Runtime or for another kind of processor, where it matters.

    Standard operators run anywhere; ONNX Runtime's own change between versions, and layouts between processors.

    Args:
        prepared: A result of ``open_prepared``.
        version: Version of the ONNX Runtime that runs the layers.
        processor: A result of ``processor_kind``.

    Raises:
        InputError: the layers were prepared for another version or processor.
    """
    level, made = prepared.options.get("optimise"), prepared.runtime
    if level != "basic" and made.get("onnxruntime") != version:
        raise InputError(
            f"{prepared.folder} was prepared with ONNX Runtime {made.get('onnxruntime')}, this is {version}",
            f"{HINT}; edgetune schedule prepare --optimise basic makes layers for every version",
        )
    if level == "all" and made.get("processor") != processor:
        raise InputError(
            f"{prepared.folder} was prepared for a processor of kind {made.get('processor')}, this is {processor}",
            f"{HINT}; edgetune schedule prepare --optimise extended makes layers for every processor",
        )


def is_prepared(folder: Path) -> bool:
    """Return whether a folder has the manifest of a prepared network, of any version."""
    try:
        found = json.loads(read_file(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.get("kind") == KIND


def _read(folder: Path) -> Prepared:
    path = folder / MANIFEST
    try:
        document = json.loads(read_file(path))
    except OSError as error:
        raise InputError(
            f"{folder} is no prepared network: {path} {'is missing' if not path.exists() else error.strerror}",
            "edgetune schedule prepare MODEL -o DIR makes DIR/NAME",
        ) from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is damaged: it is not JSON", HINT) from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise InputError(f"{path} is no manifest of a prepared network", "name a folder that edgetune prepared")
    if document.get("version") != VERSION:
        raise InputError(f"{path} has version {document.get('version')}, this reads {VERSION}", HINT)
    try:
        source = {"reference": document["source"]["reference"], "source_sha256": document["source"]["sha256"]}
        prepared: Prepared = _read_as(Prepared, {"check_peak_bytes": None, **document, **source, "folder": folder})
        _check(prepared)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}", HINT) from None
    return prepared


def _read_as(kind: Any, value: Any) -> Any:
    """Return plain data as a dataclass, tuple or mapping of equal members, one of several words, text or number."""
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(
            **{name: _read_as(each, value[name]) for name, each in get_type_hints(kind, include_extras=True).items()}
        )
    if get_origin(kind) is Mapping:
        name_kind, value_kind = get_args(kind)
        return {_read_as(name_kind, name): _read_as(value_kind, each) for name, each in value.items()}
    if get_origin(kind) is tuple:
        return tuple(_read_as(get_args(kind)[0], each) for each in value)
    if get_origin(kind) is Literal and value not in get_args(kind):
        raise ValueError(f"one of {', '.join(get_args(kind))} expected, not {value!r}")
    if kind in (Any, Path) or (value is None and NoneType in get_args(kind)):
        return value
    if kind in (str, FileName) or get_origin(kind) is Literal:
        if not isinstance(value, str) or not value:
            raise ValueError(f"text expected, not {value!r}")
        if kind is FileName and (value != Path(value).name or "\0" in value):
            raise ValueError(f"a file of the folder expected, not {value!r}")
        return value
    whole = float not in (kind, *get_args(kind))
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"a {'whole' if whole else 'finite'} number of zero or more expected, not {value!r}")
    return value if whole else float(value)


def _check(prepared: Prepared) -> None:
    """Raise ``ValueError`` or ``KeyError`` if a layer reads a missing tensor or file, or names repeat."""
    if not prepared.layers:
        raise ValueError("no layers")
    if len({layer.name for layer in prepared.layers}) != len(prepared.layers):
        raise ValueError("two layers of one name")
    makers = {tensor.name: -1 for tensor in prepared.inputs}
    for index, layer in enumerate(prepared.layers):
        needed = sorted({makers[name] for name in layer.inputs} - {-1})
        if list(layer.after) != needed:
            raise ValueError(f"layer {layer.name} is after {list(layer.after)} but reads from {needed}")
        makers.update(dict.fromkeys(layer.outputs, index))
        for file in (layer.graph, *(weight.file for weight in layer.weights)):
            prepared.files[file]
        if any(weight.end > prepared.files[weight.file].size_bytes for weight in layer.weights):
            raise ValueError(f"layer {layer.name} has a weight outside its file")
    for tensor in prepared.outputs:
        makers[tensor.name]
    for file in (prepared.whole["external"], *prepared.whole.values()):
        prepared.files[file]


def processor_kind(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return the kind of processor that kernel layouts depend on, e.g. ``x86_64 avx512f``.

    Source: MLAS (``MlasPlatform``) blocks channels by 16 with AVX-512, by 8 with AVX or SSE, otherwise by architecture.
    """
    try:
        text = cpuinfo.read_text(errors="replace")
    except OSError:
        text = ""
    flags: list[str] = next(
        (line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("flags")), []
    )
    best = next((flag for flag in ("avx512f", "avx2", "avx") if flag in flags), "")
    return f"{platform.machine()} {best}".strip()

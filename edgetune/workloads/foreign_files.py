"""Files of networks that edgetune does not run: recognition of their kind, and the command that converts each.

    file -> first bytes, or the names in its archive -> kind -> the command to type

A kind is one row of ``KINDS``, recognised by content if the format has a mark, otherwise by the ending of the name.

Checks the file that a reference to a workload names.
"""

import ast
import os
import re
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgetune.artifacts.files import as_found, storable
from edgetune.choices import closest
from edgetune.errors import InputError

_HEAD_BYTES = 16
ENGINE_MARKS = (b"ptrt", b"ftrt")
"""First bytes of engines of TensorRT 8 to 10."""
EXAMPLE = "examples/train_tiny.py"


@dataclass(frozen=True, slots=True)
class ForeignKind:
    """A kind of file.

    Args:
        what: What the file is, as in ``net.pt is ...``.
        hint: How to convert it; ``{file}`` stands for the file and ``{onnx}`` for the ONNX file to write.
        endings: Endings of the file's name, in lower case, used if no mark decides.
        mark: Its first bytes, as a regular expression.
        names: Names in a zip archive, without its root folder, or in a folder: all of one of these sets.
    """

    what: str
    hint: str
    endings: tuple[str, ...] = ()
    mark: bytes | None = None
    names: tuple[frozenset[str], ...] = ()


def _all(*names: str) -> frozenset[str]:
    return frozenset(names)


_TORCH_EXPORT = "torch.onnx.export(model, (example,), '{onnx}')"
_EXPORT_THERE = "export the model to ONNX where it was made"

TABLE = ForeignKind(
    "a table, not an ONNX model",
    "to search it: edgetune search {file}; to look its points up: --device recorded:{file}, and the network's name",
    (".parquet", ".csv"),
    rb"PAR1",
)
"""A table of edgetune, which ``edgetune search`` takes in the place of a network."""

KINDS: Sequence[ForeignKind] = (
    ForeignKind(
        "a program of torch.export without the ending .pt2",
        "give its name that ending: .pt2",
        names=(_all("archive_format"), _all("serialized_exported_program.json")),
    ),
    ForeignKind(
        "a TorchScript program",
        "export it to ONNX: torch.onnx.export(torch.jit.load('{file}'), (example,), '{onnx}', dynamo=False)",
        (".torchscript", ".ptl"),
        names=(_all("constants.pkl", "data.pkl"),),
    ),
    ForeignKind(
        "a PyTorch checkpoint: weights, and no graph to run them by",
        f"load it in the script that defines the model, and export that: {_TORCH_EXPORT}",
        (".pt", ".pth", ".ckpt"),
        re.escape(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19"),  # PyTorch's number, pickled, before version 1.6
        (_all("data.pkl"),),
    ),
    ForeignKind(
        "a TensorRT engine without the ending .engine",
        "give its name that ending: .engine",
        mark=b"|".join(ENGINE_MARKS),
    ),
    ForeignKind(
        "a TensorFlow Lite model",
        "convert it to ONNX: python -m tf2onnx.convert --tflite {file} --output {onnx}",
        (".tflite", ".lite"),
        rb"....TFL3",
    ),
    ForeignKind(
        "a network in ONNX Runtime's own format",
        "name the ONNX file that it was converted from",
        (".ort",),
        rb"....ORTM",
    ),
    ForeignKind(
        "a model of llama.cpp",
        "what its configuration costs: edgetune roofline llm:config.json; to measure it, export the model to ONNX",
        (".gguf",),
        rb"GGUF",
    ),
    ForeignKind(
        "a Keras model",
        "export it to ONNX: keras.saving.load_model('{file}').export('{onnx}', format='onnx')",
        (".h5", ".hdf5", ".keras"),
        rb"\x89HDF\r\n\x1a\n",
        (_all("config.json", "model.weights.h5"),),
    ),
    ForeignKind(
        "a file of weights, and no graph to run them by",
        f"load it into the model that it belongs to, and export that: {_TORCH_EXPORT}",
        (".safetensors",),
        rb"(?!\0{4})....\0{4}\{",  # the length of a header, of at most 100 MB by the format
    ),
    ForeignKind(
        "a TensorFlow model",
        "convert it to ONNX: python -m tf2onnx.convert --saved-model {file} --output {onnx}",
        names=(_all("saved_model.pb"),),
    ),
    ForeignKind(
        "a model of Hugging Face",
        "export it to ONNX: optimum-cli export onnx --model {file} {onnx}",
        names=(_all("config.json", "*.safetensors"), _all("config.json", "*.bin")),
    ),
    ForeignKind("a Core ML model", _EXPORT_THERE, (".mlmodel", ".mlpackage"), names=(_all("Manifest.json", "Data"),)),
    ForeignKind("an OpenVINO model", _EXPORT_THERE, (".xml",)),
    TABLE,
    ForeignKind(
        "a notebook",
        f"write its training into a Python file, as {EXAMPLE} does: jupyter nbconvert --to script {{file}} begins it",
        (".ipynb",),
    ),
)
"""All known kinds; the first that matches is used."""


def foreign_kind(path: Path, *, by_name: bool) -> ForeignKind | None:
    """Return the kind of a file or folder that edgetune does not run; ``None`` for any other.

    Args:
        path: The file or folder.
        by_name: Whether the ending decides if the content does not.
    """
    head, names = b"", set[str]()
    with suppress(OSError, zipfile.BadZipFile, NotImplementedError, ValueError):
        if path.is_dir():
            names = {child.name for child in path.iterdir()}
            names |= {f"*{child.suffix}" for child in path.iterdir()}
        elif path.is_file():
            with path.open("rb") as stream:
                head = stream.read(_HEAD_BYTES)
            if head.startswith(b"PK"):
                with zipfile.ZipFile(path) as opened:  # PyTorch adds a root folder
                    names = {each.partition("/")[2] if each.count("/") == 1 else each for each in opened.namelist()}
    for kind in KINDS:
        marked = kind.mark is not None and re.match(kind.mark, head, re.DOTALL)
        if marked or any(each <= names for each in kind.names):
            return kind
    named = (kind for kind in KINDS if by_name and path.name.lower().endswith(kind.endings))
    return next(named, None)


def refuse_foreign(path: Path, reference: str, *, by_name: bool = False) -> None:
    """Refuse a file or folder of a known kind that edgetune does not run.

    Raises:
        InputError: the file is of such a kind; the hint is the command that converts it.
    """
    kind = foreign_kind(path, by_name=by_name)
    if kind is not None:
        hint = kind.hint.format(file=reference, onnx=path.with_suffix(".onnx").name)
        raise InputError(f"{reference} is {kind.what}", hint) from None


def is_script(path: Path) -> bool:
    """Return whether a Python file defines no ``make``; it is not executed, since a script may train for hours."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return False  # executing the file reports the error with its line
    return not any(_may_bind(node) for node in ast.walk(tree))


def _may_bind(node: ast.AST) -> bool:
    """Return whether a node binds the name ``make``, or may bind it dynamically."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return node.name in ("make", "__getattr__")
    if isinstance(node, ast.Import | ast.ImportFrom):
        return any((alias.asname or alias.name) in ("make", "*") for alias in node.names)
    if isinstance(node, ast.Name):
        named = node.id == "make" and isinstance(node.ctx, ast.Store)
        return named or node.id in ("globals", "exec", "vars", "setattr", "locals")
    return False


def require_file(reference: str) -> Path:
    """Return the path of the readable file that ``reference`` names.

    Raises:
        InputError: the file is missing, unreadable, empty or a folder.
    """
    path = Path(as_found(reference))
    try:
        if path.is_dir():
            refuse_foreign(path, reference, by_name=True)
            hint = "edgetune schedule run runs a prepared network; measure its layers: edgetune schedule profile "
            files = sorted(path.glob("*.onnx"))
            other = f"name the ONNX file in it: {files[0]}" if files else "name an ONNX file"
            prepared = (path / "manifest.json").is_file()
            raise InputError(f"{reference} is a folder, not a model", f"{hint}{path}" if prepared else other)
        if not path.exists():
            from edgetune.workloads import zoo

            near = closest(reference, zoo.NETWORKS, likeness=0.8)
            raise InputError(
                f"there is no file {reference}",
                f"for the network of the zoo write {zoo.PREFIX}{near}"
                if near
                else "name an ONNX file, a Python file, a network of the zoo, e.g. zoo:resnet18, or kernel:matmul:4096",
            )
        if path.stat().st_size == 0:
            raise InputError(f"{reference} is empty", "export the model again")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {reference!r}: {reason}", "check the path and its permissions") from None
    return path


def model_name(path: Path) -> str:
    """Return the name of a model: of its file, or of its folder where every model has a file of that name.

    These are ``model.onnx`` of Triton's ``name/1/model.onnx``, 1 being a version, and Hugging Face's ``config.json``.
    """
    folder = Path(os.path.abspath(path)).parent
    if path.stem == "model" and folder.name.isdecimal():
        return storable(folder.parent.name or path.stem)
    return storable(folder.name if path.stem == "config" and folder.name else path.stem)

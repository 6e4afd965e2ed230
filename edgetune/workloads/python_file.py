"""Training written by the user: a Python file with ``make(batch_size) -> step()``.

``make`` builds model, optimiser and data loader once. Each call of ``step`` trains on one minibatch, returns when the
device has finished it, and may return the loss as a number. The optional functions ``save(path)`` and ``load(path)``,
of the file or of the step, write a checkpoint and continue from it.

An exception in the file is reported as one line with its place in the user's file, without a traceback through this
program's modules.
"""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from edgetune.artifacts.files import file_hash, storable
from edgetune.artifacts.profile import Task
from edgetune.errors import InputError
from edgetune.workloads.foreign_files import EXAMPLE, is_script, require_file
from edgetune.workloads.torch_required import INSTALL_TORCH
from edgetune.workloads.workload import RunOptions, Workload, WorkloadKind

CONTRACT = "a training file defines make(batch_size), which returns a function step() that trains on one minibatch"

_TEXT_LENGTH = 300

_loaded: dict[Path, ModuleType] = {}


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """The functions of a training file at a batch size.

    Args:
        step: Trains on one minibatch.
        save: Writes a checkpoint to a path; ``None`` if the file defines none.
        load: Continues from a checkpoint; ``None`` if the file defines none.
    """

    step: Callable[[], object]
    save: Callable[[str], object] | None
    load: Callable[[str], object] | None


def load(reference: str) -> Workload:
    """Return the workload of a training file, which is not run.

    Raises:
        InputError: the file is missing, unreadable or empty, or defines no ``make``.
    """
    path = require_file(reference)
    if is_script(path):
        raise InputError(
            f"{reference} does not define make(batch_size): it is a script, which profile and interleave run as it is",
            f"put its step into make(batch_size) as {EXAMPLE} does",
        )
    return Workload(reference, storable(path.stem), "python", path, file_hash(path).hexdigest())


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> Callable[[], object]:
    """Return the step of a training file; see ``steps.open_step``."""
    if task != "train" or workload.path is None:
        raise InputError(
            f"{workload.reference} is a Python file, which defines training only: make(batch_size) -> step()",
            "use --task train, or give an ONNX file or a zoo: network for inference",
        )
    return open_training(workload.path, batch_size, threads=options.threads).step


def open_training(path: Path, batch_size: int, *, threads: int | None = None) -> TrainingFile:
    """Run ``make(batch_size)`` of the file and return its step and its functions for checkpoints.

    The file is executed once per process, as in an import; ``make`` is called for every batch size. For checkpoints a
    file defines ``save(path)`` and ``load(path)``, as functions of the file or as attributes of the step.

    Args:
        path: The Python file.
        batch_size: Samples per minibatch.
        threads: CPU threads PyTorch may use, if the file uses PyTorch.

    Raises:
        InputError: the file cannot be loaded, ``make`` is missing, raises, or returns something that is not callable.
            The step, ``save`` and ``load`` raise it if the user's code raises.
    """
    module = load_file(path)
    make = getattr(module, "make", None)
    if not callable(make):
        raise InputError(f"{path} does not define make(batch_size)", CONTRACT)
    limit_threads(threads)
    call = f"make({batch_size})"
    step = _blaming(path, call, make)(batch_size)
    limit_threads(threads)  # again, for a file that imports PyTorch in make
    if not callable(step):
        raise InputError(f"{path}: {call} returned {_kind(step)}, not a function to call for each minibatch", CONTRACT)
    save, load = (_optional(path, name, step, module) for name in ("save", "load"))
    guarded = _blaming(path, "step()", step)

    def checked() -> object:  # when a call of these returns, nothing of its body has run
        result = guarded()
        if inspect.isawaitable(result) or inspect.isgenerator(result):
            if inspect.iscoroutine(result):
                result.close()
            raise InputError(f"{path}: step() returned {_kind(result)}, so no minibatch has run", CONTRACT)
        return result

    return TrainingFile(checked, save, load)


def _blaming(path: Path, call: str, function: Callable[..., Any], contract: str = CONTRACT) -> Callable[..., Any]:
    """Return ``function`` with its exceptions converted to ``InputError``; see ``blame``."""

    def guarded(*arguments: object) -> Any:
        try:
            return function(*arguments)
        except (Exception, SystemExit) as error:
            raise blame(path, call, error, contract) from None

    return guarded


def _optional(path: Path, name: str, *owners: object, contract: str = CONTRACT) -> Callable[..., Any] | None:
    """Return an optional function of the file, guarded by ``_blaming``; ``None`` if missing."""
    function = next((found for owner in owners if callable(found := getattr(owner, name, None))), None)
    return None if function is None else _blaming(path, f"{name}()", function, contract)


def limit_threads(threads: int | None) -> None:
    """Set the number of PyTorch's threads if the file has imported PyTorch."""
    torch = sys.modules.get("torch")
    if torch is not None and threads is not None:
        torch.set_num_threads(threads)


def load_file(path: Path, contract: str = CONTRACT) -> ModuleType:
    """Execute the file as a module, once per process, its folder first on the import path as in ``python FILE``.

    Raises:
        InputError: the file is no Python file, or raises; ``contract`` is the hint.
    """
    path = path.resolve()
    if path in _loaded:
        return _loaded[path]
    spec = importlib.util.spec_from_file_location(f"edgetune_workload_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file", contract)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[spec.name]
        raise blame(path, "the file", error, contract) from None
    _loaded[path] = module
    return module


def blame(path: Path, what: str, error: BaseException, contract: str = CONTRACT) -> InputError:
    """Return the ``InputError`` for an exception, in one line with its place in the user's file."""
    text = _text(error)
    where = path.name
    if isinstance(error, SyntaxError) and error.lineno is not None:
        where = f"{Path(error.filename or path).name}:{error.lineno}"
        text = error.msg
    else:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).resolve() == path.resolve()]
        if frames:
            where = f"{path.name}:{frames[-1].lineno}"
    missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    hint = f"mend {path}; {contract}"
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # PyTorch's, of a GPU
        hint = "use a smaller batch size, or free memory"
    elif missing:
        other = f"install the module {missing} for {sys.executable}, which runs edgetune, or mend {path}"
        hint = INSTALL_TORCH if missing == "torch" else other
    return InputError(f"{where}: {what} raised {type(error).__name__}: {text}", hint)


def _text(error: BaseException) -> str:
    """Return the message of an exception as one short line; its own ``__str__`` may raise."""
    try:
        return " ".join(str(error).split())[:_TEXT_LENGTH] or "no message"
    except Exception:
        return "no message"


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


HANDLER_CONTRACT = "a handler file defines inputs(request, line), outputs(request, line, arrays), or both"


def open_handler(path: Path) -> tuple[Callable[..., Any] | None, Callable[..., Any] | None]:
    """Execute the file, once per process, and return its ``inputs`` and ``outputs``.

    Raises:
        InputError: the file cannot be loaded, or defines neither function. The functions raise it if the file raises.
    """
    module = load_file(path, HANDLER_CONTRACT)
    inputs, outputs = (_optional(path, name, module, contract=HANDLER_CONTRACT) for name in ("inputs", "outputs"))
    if inputs is None and outputs is None:
        raise InputError(
            f"{path} defines neither inputs(request, line) nor outputs(request, line, arrays)", HANDLER_CONTRACT
        )
    return inputs, outputs


KIND = WorkloadKind(load, endings=(".py",), task="train", runtime="edgetune.workloads.python_file", runs_code=True)

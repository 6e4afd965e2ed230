"""Inference of an ONNX network on ONNX Runtime, on the requested execution provider without fallback."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from edgetune.artifacts.files import is_utf8
from edgetune.artifacts.profile import Task
from edgetune.errors import DeviceError, InputError
from edgetune.workloads.lazy import onnx
from edgetune.workloads.network_inputs import feeds
from edgetune.workloads.onnx_file import fix_dimensions, fixed_model, load_model, network_batch
from edgetune.workloads.workload import RunOptions, Workload

CHECK_FILE = "check the file with onnx.checker, and its opset against the version of onnxruntime"
_FATAL = 4
"""Level of ONNX Runtime's log above its errors, which repeat texts of the file as they are."""
_PROTOBUF_LIMIT_BYTES = 2**31 - 1
"""Largest protobuf message, and so the largest model passed in memory."""
_SOURCE_LINE = re.compile(r"\S+\.(?:h|cc|cpp|cu):\d+ [^()]*\([^()]*\)(?: const)? ?")
"""File, line and signature of the function in ONNX Runtime that raised an error, ahead of what is wrong."""

_UNREGISTERED = re.compile(r"([\w.-]+):(\w+)\(-?\d+\) is not a registered function/op")
"""Domain and type of an operator that ONNX Runtime does not have."""


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> Callable[[], object]:  # noqa: ARG001
    """Return a step that feeds one minibatch to the network and waits for its outputs; see ``steps.open_step``.

    Raises:
        InputError: the network cannot be loaded or run at this batch size, or the inputs do not fit.
        DeviceError: ONNX Runtime or the provider is missing, or the session fell back to another one.
    """
    session, feed = open_session(workload, batch_size, options)
    return running(session, feed, workload, batch_size)


def open_session(
    workload: Workload,
    batch_size: int,
    how: RunOptions,
    *,
    configure: Callable[[Any], None] | None = None,
    provider_options: Mapping[str, str] | None = None,
) -> tuple[Any, Mapping[str, Any]]:
    """Return an ONNX Runtime session and the minibatch to feed it.

    A file with a symbolic batch is opened from its path as it is, as an application opens it: told the sizes, ONNX
    Runtime optimises otherwise, and some networks are slower. A file with a fixed batch, or a name that is not UTF-8,
    is rewritten in memory.

    Args:
        workload: The network.
        batch_size: Samples per minibatch.
        how: The options of the run.
        configure: Changes the session's options before the session is created.
        provider_options: Options of the first provider, e.g. ``user_compute_stream``.

    Raises:
        InputError, DeviceError: see ``open_step``.
    """
    providers, dimensions = how.ort_providers, how.dimensions
    ort = require_onnxruntime(providers)
    source, graph = model_source(workload, batch_size, dimensions)
    feed = feeds(workload, graph, batch_size, dimensions, inputs_file=how.inputs, seed=how.seed)
    options = session_options(threads=how.threads)
    if how.threads is not None:
        options.inter_op_num_threads = 1
    if configure is not None:
        configure(options)
    asked = [(name, provider_options or {}) if name == providers[0] else name for name in providers]
    try:
        session = ort.InferenceSession(source, options, providers=asked)
    except Exception as error:  # its exception types share no base class but Exception
        step, hint = "", CHECK_FILE
        if isinstance(source, bytes):
            step = f" as edgetune rewrote it for batch size {batch_size}"
            hint = "if the batch size of its export works, the model is in order: report this error"
        raise cannot_load(f"{workload.reference}{step}", error, hint) from None
    ran = session.get_providers()
    if providers and ran[:1] != [providers[0]]:  # ONNX Runtime falls back silently
        raise DeviceError(
            f"{workload.reference} was to run on {providers[0]}, but ONNX Runtime chose {ran[0] if ran else 'nothing'}",
            "edgetune doctor says what this ONNX Runtime can use and what it lacks",
        )
    return session, feed


def cannot_load(name: str, error: Exception, hint: str = CHECK_FILE) -> InputError:
    """Return the error for a network that ONNX Runtime cannot load; it names an operator of a library of its own."""
    if "Graph attribute inferencing failed" in str(error):  # also of a branch that these inputs would not take
        return InputError(
            f"ONNX Runtime cannot load {name} at these sizes, which a branch or a loop in it does not fit: "
            f"{one_line(error)}",
            "export it with the branch alone that is taken, or give sizes that fit every branch",
        )
    foreign = _UNREGISTERED.search(str(error))
    if foreign is None or foreign[1] in ("ai.onnx", "com.microsoft"):
        return InputError(f"ONNX Runtime cannot load {name}: {one_line(error)}", hint)
    return InputError(
        f"ONNX Runtime cannot load {name}: operator {foreign[2]} is of a custom library ({foreign[1]}), and edgetune "
        "loads none",
        "measure a program that registers the library: edgetune profile -- python FILE.py; roofline ops costs the "
        "other operators",
    )


def model_source(
    workload: Workload, batch_size: int, dimensions: Mapping[str, int]
) -> tuple[str | bytes, onnx.ModelProto]:
    """Return the path of a network, or the network with fixed dimensions, serialised; and its fixed graph, weightless.

    Raises:
        InputError: see ``open_step``.
    """
    declared = load_model(workload, weights=False)
    batch = network_batch(workload, dimensions, batch_size)
    fixed = fix_dimensions(declared, batch_size=batch_size, dimensions=dimensions, batch=batch)
    if workload.path is not None and _is_kept(declared, fixed) and is_utf8(workload.path):
        return str(workload.path), fixed
    model = fixed_model(workload, batch_size, dimensions, weights=True)
    if model.ByteSize() > _PROTOBUF_LIMIT_BYTES:
        raise InputError(
            f"the network is {model.ByteSize() / 2**30:.1f} GiB with its batch size fixed, over protobuf's 2 GiB",
            "export it with a dynamic batch dimension and its weights as external data",
        )
    return model.SerializeToString(), fixed


def optimisation_level(level: str) -> Any:
    """Return ONNX Runtime's value of ``disabled``, ``basic``, ``extended`` or ``all``."""
    name = "ORT_DISABLE_ALL" if level == "disabled" else f"ORT_ENABLE_{level.upper()}"
    return getattr(require_onnxruntime(()).GraphOptimizationLevel, name)


def session_options(level: str = "all", *, threads: int | None = None) -> Any:
    """Return options of a session that logs nothing: an error is an exception, whose text is shown escaped.

    Args:
        level: See ``optimisation_level``.
        threads: CPU threads of an operator; ``None`` for the library's default.

    Raises:
        DeviceError: ONNX Runtime is missing.
    """
    options = require_onnxruntime(()).SessionOptions()
    options.log_severity_level = _FATAL
    options.graph_optimization_level = optimisation_level(level)
    if threads is not None:
        options.intra_op_num_threads = threads
    return options


def running(session: Any, feed: Mapping[str, Any], workload: Workload, batch_size: int) -> Callable[[], object]:
    """Return a step that runs one minibatch in a session; a failing step raises ``InputError``."""
    run = session.run

    def step() -> object:
        try:
            return run(None, feed)
        except Exception as error:
            raise InputError(
                f"{workload.reference} failed at batch size {batch_size}: {one_line(error)}",
                "try the batch size and the --dim that it was exported with, since a shape may be built in; give real "
                "inputs with --inputs FILE.npz if it looks them up",
            ) from None

    return step


def _is_kept(declared: onnx.ModelProto, fixed: onnx.ModelProto) -> bool:
    """Return whether each fixed dimension keeps its size and each symbol has one."""
    sizes = {value.name: value.type.tensor_type.shape.dim for value in fixed.graph.input}
    named: dict[str, int] = {}
    for value in declared.graph.input:
        for before, after in zip(value.type.tensor_type.shape.dim, sizes.get(value.name, ()), strict=False):
            if before.HasField("dim_value") and before.dim_value != after.dim_value:
                return False
            if before.HasField("dim_param") and named.setdefault(before.dim_param, after.dim_value) != after.dim_value:
                return False
    return True


def require_onnxruntime(providers: tuple[str, ...]) -> Any:
    """Return the onnxruntime module after checking that it has every provider.

    Raises:
        DeviceError: ONNX Runtime is not installed, or lacks a provider.
    """
    try:
        import onnxruntime as ort
    except ImportError as error:
        raise DeviceError(
            f"inference needs ONNX Runtime: {error}", "pip install 'edgetune[ort]' (on a Jetson: NVIDIA's wheel)"
        ) from None
    ort.set_default_logger_severity(_FATAL)
    missing = [name for name in providers if name not in ort.get_available_providers()]
    if missing:
        raise DeviceError(
            f"this ONNX Runtime lacks {', '.join(missing)}; it has {', '.join(ort.get_available_providers())}",
            "pip install 'edgetune[ort-gpu]' in place of onnxruntime; the two cannot be installed together",
        )
    if "CUDAExecutionProvider" in providers:
        # CUDA's libraries that pip installed beside ONNX Runtime; it finds those of the system itself.
        # Source: onnxruntime.preload_dlls, since 1.21; older releases search the paths of the dynamic linker.
        preload = getattr(ort, "preload_dlls", None)
        if preload is not None:
            with contextlib.redirect_stdout(sys.stderr):  # it prints the libraries that it does not find
                preload()
    return ort


def one_line(error: BaseException) -> str:
    """Return the message of an error of ONNX Runtime as one line of at most 300 characters, without its source line."""
    return _SOURCE_LINE.sub("", " ".join(str(error).split()))[:300]

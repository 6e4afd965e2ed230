"""TensorRT engines: files that others built, and runs of engines on the GPU.

    net.engine = the engine, or a length (4 bytes, little-endian), JSON of that length and the engine (Ultralytics)

A minibatch is one enqueue and the wait for it; inputs and outputs stay on the GPU.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/infer/Core/Engine.html and
.../infer/Core/ExecutionContext.html (``get_tensor_profile_shape``, ``set_optimization_profile_async``,
``set_input_shape``, ``set_tensor_address``, ``get_max_output_size``, ``execute_async_v3``); the prefix:
ultralytics, ``nn/backends/tensorrt.py``.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.artifacts.files import file_hash
from edgetune.artifacts.profile import Task
from edgetune.errors import DeviceError, InputError
from edgetune.workloads.cuda_driver import GpuMemory
from edgetune.workloads.engines import BuiltEngine, BuiltStep
from edgetune.workloads.foreign_files import ENGINE_MARKS, model_name, refuse_foreign, require_file
from edgetune.workloads.tensorrt_build import LoadedEngine, deserialize, require_tensorrt
from edgetune.workloads.workload import BatchLimits, RunOptions, Workload, WorkloadKind

_LONGEST_PREFIX_BYTES = 1 << 20
_ITEM_BYTES = {
    "FLOAT": 4, "HALF": 2, "BF16": 2, "INT8": 1, "UINT8": 1, "FP8": 1, "BOOL": 1, "INT32": 4, "INT64": 8,
}  # fmt: skip
_NUMPY = {
    "FLOAT": "float32", "HALF": "float16", "INT8": "int8", "UINT8": "uint8", "BOOL": "bool", "INT32": "int32",
    "INT64": "int64",
}  # fmt: skip
_FIX = "build an engine for these shapes: edgetune profile net.onnx --engine tensorrt"

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def load(reference: str) -> Workload:
    """Return the workload of an engine file, which is not loaded.

    Raises:
        InputError: the file is missing, unreadable, empty or of another kind.
    """
    path = require_file(reference)
    with path.open("rb") as stream:
        marked = stream.read(4) in ENGINE_MARKS
    if not marked:
        refuse_foreign(path, reference)
    return Workload(reference, model_name(path), "engine", path, file_hash(path).hexdigest())


def open_step(workload: Workload, task: Task, batch_size: int, options: RunOptions) -> BuiltStep:
    """Return a step that enqueues an engine once: one in a file, or one built from a network; see ``steps.open_step``.

    Raises:
        InputError: the engine or the network cannot be used at this batch size, or the inputs do not fit.
        DeviceError: TensorRT, its memory library or the GPU is missing.
    """
    if task != "infer":
        raise InputError(f"{workload.reference} is an engine, which infers and does not train", "use --task infer")
    trt = require_tensorrt()
    gpu = GpuMemory()
    arrays: Mapping[str, Array] | None = None
    if workload.kind == "engine":
        plan, dla_core = read_plan(workload)
        dla_core = dla_core if options.engine.dla_core is None else options.engine.dla_core
        built = BuiltEngine(None, len(plan), cached=True)
    else:
        from edgetune.workloads.network_inputs import feeds
        from edgetune.workloads.onnx_file import fixed_model
        from edgetune.workloads.tensorrt_build import EngineRequest, build_engine

        fixed = fixed_model(workload, batch_size, options.dimensions, weights=False)
        arrays = feeds(workload, fixed, batch_size, options.dimensions, inputs_file=options.inputs, seed=options.seed)
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        plan, built = build_engine(EngineRequest(trt, gpu.gpu, workload, batch_size, shapes, options))
        dla_core = options.engine.dla_core
    loaded = deserialize(trt, plan, workload.reference, gpu.gpu, dla_core)
    if arrays is None:
        arrays = _arrays(trt, loaded.engine, workload, batch_size, options)
    return BuiltStep(EngineRun(trt, loaded, gpu, arrays, workload.reference), built)


def read_plan(workload: Workload) -> tuple[bytes, int | None]:
    """Return the engine of a file without the metadata before it, and the DLA core that the metadata names."""
    assert workload.path is not None
    content = Path(workload.path).read_bytes()
    length = int.from_bytes(content[:4], "little")
    if not 2 <= length <= min(_LONGEST_PREFIX_BYTES, len(content) - 4):
        return content, None
    try:
        metadata = json.loads(content[4 : 4 + length].decode())
    except ValueError:
        return content, None
    core = str(metadata.get("dla")) if isinstance(metadata, dict) else ""
    return content[4 + length :], int(core) if core.isdecimal() else None


def inspect(workload: Workload, options: RunOptions) -> BatchLimits:
    """Return the batch sizes that an engine file takes.

    Raises:
        InputError, DeviceError: see ``open_step``.
    """
    trt, gpu = require_tensorrt(), GpuMemory()
    plan, core = read_plan(workload)
    core = core if options.engine.dla_core is None else options.engine.dla_core
    return limits_of(trt, deserialize(trt, plan, workload.reference, gpu.gpu, core).engine)


def limits_of(trt: Any, engine: Any) -> BatchLimits:
    """Return the batch sizes of an engine: the first axis of its inputs, in all of its profiles."""
    inputs = _inputs(trt, engine)
    if any(shape[:1] == (-1,) for shape in inputs.values()):
        name = next(name for name, shape in inputs.items() if shape[:1] == (-1,))
        ranges = [_profile(engine, name, index) for index in range(engine.num_optimization_profiles)]
        return BatchLimits(min(low[0] for low, _, _ in ranges), max(high[0] for _, _, high in ranges), ranges[0][1][0],
                           _FIX)  # fmt: skip
    firsts = {shape[0] for shape in inputs.values() if shape}
    only = firsts.pop() if len(firsts) == 1 else 1
    return BatchLimits(only, only, only, _FIX)


def _inputs(trt: Any, engine: Any) -> dict[str, Shape]:
    """Return the declared shape of each input, with -1 for an open size."""
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    inputs = [name for name in names if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT]
    return {name: tuple(engine.get_tensor_shape(name)) for name in inputs}


def _profile(engine: Any, name: str, index: int) -> tuple[Shape, Shape, Shape]:
    """Return the smallest, the usual and the largest shape of an input in a profile."""
    least, usual, most = engine.get_tensor_profile_shape(name, index)
    return tuple(least), tuple(usual), tuple(most)


def _takes(engine: Any, name: str, index: int, shape: Shape) -> bool:
    """Return whether an input takes a shape in a profile."""
    declared = tuple(engine.get_tensor_shape(name))
    least, _, most = _profile(engine, name, index) if -1 in declared else (declared, (), declared)
    sizes = zip(least, shape, most, strict=False)
    return len(least) == len(shape) and all(low <= size <= high for low, size, high in sizes)


def _arrays(trt: Any, engine: Any, workload: Workload, batch_size: int, options: RunOptions) -> Mapping[str, Array]:
    """Return arrays for the inputs of an engine file: those of the user, or generated ones.

    Open sizes besides the batch are the usual ones of the profile. Floats are uniform in [0, 1), whole numbers 0 or 1.

    Raises:
        InputError: the engine does not take this batch size, an input decides shapes, or the user's arrays do not fit.
    """
    limits = limits_of(trt, engine)
    limits.check(batch_size, workload.reference)
    specs, open_axes = [], dict[str, int]()
    for name, declared in _inputs(trt, engine).items():
        shape = declared
        if -1 in declared:
            profiles = (_profile(engine, name, index) for index in range(engine.num_optimization_profiles))
            usual = next((usual for low, usual, high in profiles if low[0] <= batch_size <= high[0]), declared)
            shape = tuple(size if fixed == -1 else fixed for fixed, size in zip(declared, usual, strict=True))
        if declared[:1] == (-1,):
            shape, open_axes[name] = (batch_size, *shape[1:]), 0
        elif declared[:1] == (batch_size,):
            open_axes[name] = 0
        specs.append((name, shape, _NUMPY.get(engine.get_tensor_dtype(name).name, "float32")))
        if options.inputs is None and engine.get_tensor_location(name) == trt.TensorLocation.HOST:
            raise InputError(f"input {name!r} of {workload.reference} decides shapes", "give it with --inputs FILE.npz")
    from edgetune.workloads.network_inputs import made_inputs

    return made_inputs(specs, batch_size, open_axes, options.inputs, options.seed)


class EngineRun:
    """An engine with its inputs and outputs on the GPU; a call enqueues it once and waits.

    Args:
        trt: The module ``tensorrt``.
        loaded: The engine.
        gpu: Memory of the GPU.
        arrays: The inputs by name.
        reference: The engine or network, for messages.

    Raises:
        InputError: no profile takes these shapes, a tensor has another layout, or an output has no largest size.
        DeviceError: there is no memory for the context.
    """

    def __init__(
        self, trt: Any, loaded: LoadedEngine, gpu: GpuMemory, arrays: Mapping[str, Array], reference: str
    ) -> None:
        self._loaded, self._gpu, self._reference = loaded, gpu, reference
        self._on_host: list[Array] = []
        engine = loaded.engine
        self._context = engine.create_execution_context()
        if self._context is None:
            raise DeviceError(f"the GPU has no memory for {reference}", "use a smaller batch size, or free memory")
        self._choose_profile(engine, {name: tuple(array.shape) for name, array in arrays.items()})
        for index in range(engine.num_io_tensors):
            name = engine.get_tensor_name(index)
            kind = engine.get_tensor_dtype(name).name
            if (layout := engine.get_tensor_format(name)) != trt.TensorFormat.LINEAR:
                raise InputError(
                    f"tensor {name!r} of {reference} is laid out as {layout.name}, not in rows",
                    "build it with the default formats of inputs and outputs, not with chw32 and the like",
                )
            if engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                address = self._input(trt, engine, name, arrays[name], kind)
            else:
                address = gpu.allocate(self._output_bytes(name, kind))
            self._context.set_tensor_address(name, address)

    def __call__(self) -> None:
        """Run one minibatch.

        Raises:
            InputError: TensorRT does not run it.
        """
        if not self._context.execute_async_v3(self._gpu.stream):
            reason = self._loaded.messages.reason(last=True)
            raise InputError(f"TensorRT does not run {self._reference}: {reason}", "build the engine again")
        self._gpu.synchronize()

    def _choose_profile(self, engine: Any, shapes: Mapping[str, Shape]) -> None:
        """Select the first profile that takes the shapes, and set them."""
        for index in range(engine.num_optimization_profiles):
            if all(_takes(engine, name, index, shape) for name, shape in shapes.items()):
                break
        else:
            asked = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items())
            raise InputError(f"no profile of {self._reference} takes {asked}", _FIX)
        self._context.set_optimization_profile_async(index, self._gpu.stream)
        self._gpu.synchronize()
        if not all(self._context.set_input_shape(name, shape) for name, shape in shapes.items()):
            raise InputError(f"{self._reference} does not take its own shapes", "build the engine again")

    def _input(self, trt: Any, engine: Any, name: str, array: Array, kind: str) -> int:
        """Return the address of an input: on the GPU, or on the host where it decides shapes."""
        if kind == "BF16":  # the upper half of FP32
            array = (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        elif kind in _NUMPY:  # TensorRT 8 takes INT32 where the network has INT64
            array = np.ascontiguousarray(array, _NUMPY[kind])
        else:
            array = np.zeros(math.prod(array.shape) * _item_bytes(kind, name), np.uint8)
        if engine.get_tensor_location(name) == trt.TensorLocation.HOST:
            self._on_host.append(array)
            return int(array.ctypes.data)
        return self._gpu.upload(array)

    def _output_bytes(self, name: str, kind: str) -> int:
        shape = tuple(self._context.get_tensor_shape(name))
        if -1 not in shape:
            return int(math.prod(shape)) * _item_bytes(kind, name)
        most = int(self._context.get_max_output_size(name))
        if most < 0:
            raise InputError(f"output {name!r} of {self._reference} has no largest size", "end the network before it")
        return most


def _item_bytes(kind: str, name: str) -> int:
    if kind not in _ITEM_BYTES:
        raise InputError(
            f"tensor {name!r} is of type {kind}, which edgetune does not know", "convert it in the network"
        )
    return _ITEM_BYTES[kind]


KIND = WorkloadKind(
    load, endings=(".engine", ".plan", ".trt"), task="infer", runtime="edgetune.workloads.tensorrt_engine"
)

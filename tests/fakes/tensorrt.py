"""A fake of TensorRT's Python interface (8.6 to 11), as far as edgetune uses it. Nothing is computed.

It parses ONNX with ``onnx``, "builds" an engine of JSON, and checks what the real library checks: a logger that was
initialised, shapes within a profile, addresses of enough memory, scales of INT8, what a DLA runs, the version and the
compute capability of an engine. It refuses as the real one does: a message to the logger, and ``None`` or ``False``.

Source: https://docs.nvidia.com/deeplearning/tensorrt/latest/_static/python-api/, and the issues that
``edgetune.workloads.tensorrt_build`` names for the words of its messages.
"""

import json
import math
import sys
import time
from enum import IntEnum

import onnx

from edgetune.testing.fake_jetson import FakeClock
from fakes.cuda_driver import FakeCuda
from fakes.cuda_gpu import FakeCudaGpu

__version__ = "10.3.0"
COMPUTE = "8.7"
DLA_CORES = 2
DLA_TYPES = ("Conv", "Relu", "MaxPool", "AveragePool", "GlobalAveragePool", "Concat")
UNSUPPORTED = ("NonMaxSuppressionX",)
MINIBATCH_S = 0.001
STARTS = True


DataType = IntEnum("DataType", "FLOAT HALF INT8 INT32 BOOL UINT8 FP8 BF16 INT64 INT4", start=0)
ITEM_BYTES = {"FLOAT": 4, "HALF": 2, "INT32": 4, "BF16": 2, "INT64": 8}
ONNX_TYPES = {1: "FLOAT", 10: "HALF", 6: "INT32", 7: "INT64", 9: "BOOL", 16: "BF16", 2: "UINT8", 3: "INT8"}


TensorIOMode = IntEnum("TensorIOMode", "NONE INPUT OUTPUT", start=0)
TensorLocation = IntEnum("TensorLocation", "DEVICE HOST", start=0)
DeviceType = IntEnum("DeviceType", "GPU DLA", start=0)
BuilderFlag = IntEnum("BuilderFlag", "FP16 BF16 INT8 GPU_FALLBACK")
NetworkDefinitionCreationFlag = IntEnum("NetworkDefinitionCreationFlag", "EXPLICIT_BATCH", start=0)
TensorFormat = IntEnum("TensorFormat", {"LINEAR": 0, "CHW32": 5})


class ILogger:
    Severity = IntEnum("Severity", "INTERNAL_ERROR ERROR WARNING INFO", start=0)

    def __init__(self):
        self.initialised = True


def init_libnvinfer_plugins(logger, namespace):
    return bool(_checked(logger)) and namespace == ""


def be(monkeypatch, version):
    """Have the names of another version: 8.6 has no BF16, 11 no flag of a precision.

    The names of 8.6.1, 10.3.0 and 11.4.0 were compared with NVIDIA's own bindings (``tensorrt-bindings`` and
    ``tensorrt-cu12-bindings`` on PyPI).
    """
    monkeypatch.setattr(sys.modules[__name__], "__version__", version)
    major = int(version.partition(".")[0])
    flags = {8: ("FP16", "INT8", "GPU_FALLBACK"), 11: ("GPU_FALLBACK",)}.get(major, tuple(BuilderFlag.__members__))
    monkeypatch.setattr(sys.modules[__name__], "BuilderFlag", IntEnum("BuilderFlag", flags))
    if major >= 11:
        monkeypatch.setattr(sys.modules[__name__], "NetworkDefinitionCreationFlag", IntEnum("Flag", "STRONGLY_TYPED"))


def _checked(logger):
    if not getattr(logger, "initialised", False):
        raise TypeError("tensorrt.ILogger.__init__() must be called when overriding __init__")
    if not STARTS:
        logger.log(ILogger.Severity.INTERNAL_ERROR, "CUDA initialization failure with error: 35")
        raise TypeError("pybind11::init(): factory function returned nullptr")
    return logger


class _Tensor:
    def __init__(self, name, shape, kind):
        self.name, self.shape, self.kind = name, shape, kind


class _Layer:
    def __init__(self, name, kind):
        self.name, self.kind = name, kind


class _Network:
    def __init__(self):
        self.model, self.inputs, self.layers = None, [], []

    num_inputs = property(lambda self: len(self.inputs))
    num_layers = property(lambda self: len(self.layers))

    def get_input(self, index):
        return self.inputs[index]

    def get_layer(self, index):
        return self.layers[index]

    def outputs(self):
        """Infer the shapes of the outputs from those of the inputs, as they are now."""
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        for value in model.graph.input:
            for tensor in self.inputs:
                if tensor.name == value.name:
                    for dim, size in zip(value.type.tensor_type.shape.dim, tensor.shape, strict=True):
                        dim.dim_value = size
        names = [value.name for value in model.graph.output]
        del model.graph.value_info[:]
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        found = {value.name: value for value in onnx.shape_inference.infer_shapes(model).graph.output}
        return {
            name: [[dim.dim_value or -1 for dim in found[name].type.tensor_type.shape.dim],
                   ONNX_TYPES[found[name].type.tensor_type.elem_type]]
            for name in names
        }  # fmt: skip


class _ParserError:
    def __init__(self, text):
        self.text = text

    def desc(self):
        return self.text


class OnnxParser:
    def __init__(self, network, logger):
        self.network, self.errors = network, []
        _checked(logger)

    num_errors = property(lambda self: len(self.errors))

    def get_error(self, index):
        return self.errors[index]

    def parse_from_file(self, path):
        with open(path, "rb") as file:
            return self.parse(file.read())

    def parse(self, content):
        model = onnx.load_from_string(content)
        bad = [node.op_type for node in model.graph.node if node.op_type in UNSUPPORTED]
        if bad:
            self.errors.append(_ParserError(f"Plugin not found, are the plugin name {bad[0]} correct?"))
            return False
        weights = {weight.name for weight in model.graph.initializer}
        for value in model.graph.input:
            if value.name not in weights:
                kind = value.type.tensor_type
                shape = tuple(dim.dim_value if dim.HasField("dim_value") else -1 for dim in kind.shape.dim)
                self.network.inputs.append(_Tensor(value.name, shape, ONNX_TYPES[kind.elem_type]))
        self.network.layers = [_Layer(node.name or node.output[0], node.op_type) for node in model.graph.node]
        self.network.model = model
        return True


class _Config:
    def __init__(self):
        self.flags = set()
        self.default_device_type, self.DLA_core = DeviceType.GPU, -1

    def set_flag(self, flag):
        self.flags.add(flag)

    def can_run_on_DLA(self, layer):
        lowered = {flag.name for flag in self.flags} & {"FP16", "INT8"}
        return layer.kind in DLA_TYPES and bool(lowered or not hasattr(BuilderFlag, "FP16"))


class Builder:
    builds = 0

    def __init__(self, logger):
        self.logger = _checked(logger)

    num_DLA_cores = property(lambda _: DLA_CORES)

    def create_network(self, flags=0):
        if __version__.startswith("8.") and not flags & 1:
            raise ValueError("only explicit batch is faked")
        return _Network()

    def create_builder_config(self):
        return _Config()

    def build_serialized_network(self, network, config):
        Builder.builds += 1
        reason = self._reason(network, config)
        if reason is not None:
            self.logger.log(ILogger.Severity.ERROR, reason)
            return None
        if config.default_device_type == DeviceType.DLA:
            for layer in network.layers:
                if not config.can_run_on_DLA(layer):
                    self.logger.log(
                        ILogger.Severity.WARNING,
                        f"Layer '{layer.name}' ({layer.kind.upper()}): Unsupported on DLA. Switching this layer's "
                        "device type to GPU.",
                    )
        inputs = {tensor.name: [list(tensor.shape), tensor.kind] for tensor in network.inputs}
        return bytearray(plan(inputs, network.outputs(), flags=sorted(flag.name for flag in config.flags)))

    def _reason(self, network, config):
        if any(-1 in tensor.shape for tensor in network.inputs):
            return "Error Code 4: API Usage Error (Network has dynamic or shape inputs, but no optimization profile)"
        if config.default_device_type == DeviceType.DLA and BuilderFlag.GPU_FALLBACK not in config.flags:
            return "Error Code 4: Internal Error (GPU fallback is not enabled, and inputs need a reformat.)"
        return None


def plan(inputs, outputs, *, profiles=None, version=None, compute=None, model="Orin", host=(), flags=(), formats=None):
    """Return a serialised engine."""
    described = {
        "inputs": inputs, "outputs": outputs, "profiles": profiles or [{}], "version": version or __version__,
        "compute": compute or COMPUTE, "model": model, "host": list(host), "flags": list(flags),
        "formats": formats or {},
    }  # fmt: skip
    content = json.dumps(described).encode()
    return b"ptrt" + len(content).to_bytes(4, "little") + content


class Runtime:
    def __init__(self, logger):
        self.logger, self.DLA_core = _checked(logger), -1

    num_DLA_cores = property(lambda _: DLA_CORES)

    def deserialize_cuda_engine(self, content):
        size = int.from_bytes(content[4:8], "little")
        said = None
        if content[:4] != b"ptrt":
            said = "Error Code 1: Serialization (Serialization assertion magicTagRead == kMAGIC_TAG failed.)"
        elif len(content) < 8 + size:
            said = "Error Code 1: Serialization (Serialization assertion sizeRead == size failed.)"
        if said is None:
            described = json.loads(content[8 : 8 + size])
            if described["version"] != __version__:
                said = (
                    "Error Code 6: API Usage Error (The engine plan file is not compatible with this version of "
                    f"TensorRT, expecting library version {__version__} got {described['version']}, please rebuild.)"
                )
            elif described["compute"] != COMPUTE:
                said = (
                    "Error Code 6: API Usage Error (The engine plan file is generated on an incompatible device, "
                    f"expecting compute {COMPUTE} got compute {described['compute']}, please rebuild.)"
                )
        if said is not None:
            self.logger.log(ILogger.Severity.ERROR, said)
            return None
        if described["model"] != cuda.works[0].gpu.name:
            self.logger.log(
                ILogger.Severity.WARNING,
                "Using an engine plan file across different models of devices is not recommended.",
            )
        return _Engine(described, self.logger)


class _Engine:
    def __init__(self, described, logger):
        self.described, self.logger = described, logger
        self.tensors = {**described["inputs"], **described["outputs"]}

    num_io_tensors = property(lambda self: len(self.tensors))
    num_optimization_profiles = property(lambda self: len(self.described["profiles"]))

    def get_tensor_name(self, index):
        return list(self.tensors)[index]

    def get_tensor_mode(self, name):
        return TensorIOMode.INPUT if name in self.described["inputs"] else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name):
        return DataType[self.tensors[name][1]]

    def get_tensor_shape(self, name):
        return tuple(self.tensors[name][0])

    def get_tensor_format(self, name):
        return TensorFormat[self.described["formats"].get(name, "LINEAR")]

    def get_tensor_location(self, name):
        return TensorLocation.HOST if name in self.described["host"] else TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name, profile_index):
        return [tuple(shape) for shape in self.described["profiles"][profile_index][name]]

    def create_execution_context(self):
        return _Context(self)


class _Context:
    def __init__(self, engine):
        self.engine, self.shapes, self.addresses, self.profile = engine, {}, {}, 0
        self.runs = 0

    def _refused(self, text):
        self.engine.logger.log(ILogger.Severity.ERROR, text)
        return False

    def set_optimization_profile_async(self, profile_index, stream_handle):
        if not 0 <= profile_index < self.engine.num_optimization_profiles or not _is_stream(stream_handle):
            return self._refused("Error Code 3: API Usage Error (Parameter check failed, condition: profileIndex)")
        self.profile, self.shapes = profile_index, {}
        return True

    def set_input_shape(self, name, shape):
        declared = self.engine.get_tensor_shape(name)
        if -1 in declared:
            least, _, most = self.engine.get_tensor_profile_shape(name, self.profile)
            good = len(shape) == len(least) and all(
                low <= size <= high for low, size, high in zip(least, shape, most, strict=True)
            )
        else:
            good = tuple(shape) == declared
        if not good:
            return self._refused(
                f"Error Code 3: API Usage Error (Static dimension mismatch while setting shape {shape})"
            )
        self.shapes[name] = tuple(shape)
        return True

    def get_tensor_shape(self, name):
        declared = self.engine.get_tensor_shape(name)
        if self.engine.get_tensor_mode(name) == TensorIOMode.INPUT:
            return self.shapes.get(name, declared)
        first = next(iter(self.shapes.values()), (-1,))
        return tuple(first[0] if size == -1 and axis == 0 else size for axis, size in enumerate(declared))

    def get_max_output_size(self, name):
        return 4096

    def set_tensor_address(self, name, address):
        assert isinstance(address, int)
        self.addresses[name] = address
        return True

    def execute_async_v3(self, stream_handle):
        if not _is_stream(stream_handle):
            return self._refused("Error Code 1: Cuda Runtime (invalid resource handle)")
        for name, (_, kind) in self.engine.tensors.items():
            shape = self.get_tensor_shape(name)
            if name in self.engine.described["inputs"] and name not in self.shapes:
                return self._refused(f"Error Code 3: API Usage Error (Not all shapes are specified: {name})")
            if name not in self.addresses:
                return self._refused(f"Error Code 3: API Usage Error (Neither address or allocator is set for {name})")
            needed = math.prod(shape) * ITEM_BYTES.get(kind, 1) if -1 not in shape else self.get_max_output_size(name)
            if name in self.engine.described["host"]:
                continue
            if memory_bytes().get(self.addresses[name], -1) < needed:
                return self._refused(f"Error Code 1: Cuda Runtime (an illegal memory access was encountered: {name})")
        self.runs += 1
        time.sleep(MINIBATCH_S * next(iter(self.shapes.values()))[0])
        return True


def orin():
    """Return a fake of CUDA's driver on a machine with an Orin."""
    return FakeCuda([FakeCudaGpu("Orin")], FakeClock())


cuda = orin()
"""Memory and streams of the GPU."""


def memory_bytes():
    """Return the size of each allocation on the GPU, by address."""
    return dict(cuda.works[0].memory.allocations())


def _is_stream(handle):
    return any(int(each) == handle for each in cuda.handles if each.kind == "stream" and each.alive)

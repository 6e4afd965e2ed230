"""A fake of ONNX Runtime with the TensorRT provider, as far as edgetune uses it: it writes engines and runs on the CPU.

Nothing of TensorRT runs here. It refuses what the real one refuses: unknown options of the provider, and operators that
no GPU provider takes where the CPU is disabled. Source: ``ort_tensorrt`` names the documentation.
"""

import json
from pathlib import Path

import onnx
import onnxruntime

KNOWN = {
    "trt_engine_cache_enable", "trt_engine_cache_path", "trt_timing_cache_enable", "trt_timing_cache_path",
    "trt_fp16_enable", "trt_bf16_enable", "trt_int8_enable",
}  # fmt: skip
REFUSED = (
    "[ONNXRuntimeError] : 1 : FAIL : This session contains graph nodes that are assigned to the default CPU EP, "
    "but fallback to CPU EP has been explicitly disabled by the user."
)


class FakeOrt:
    """The module ``onnxruntime`` of a build with TensorRT.

    Args:
        unsupported: Types of operators that neither TensorRT nor CUDA has.
        broken: Whether the libraries of TensorRT cannot be loaded, so that everything falls to the CPU.
    """

    def __init__(self, *, version="1.23.0", unsupported=(), broken=False):
        self.__version__ = version
        self.SessionOptions = onnxruntime.SessionOptions
        self.GraphOptimizationLevel = onnxruntime.GraphOptimizationLevel
        self.unsupported, self.broken = unsupported, broken
        self.options = {}

    def get_available_providers(self):
        return ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]

    def set_default_logger_severity(self, level):
        onnxruntime.set_default_logger_severity(level)

    def InferenceSession(self, source, options, providers):
        (name, given), *others = providers
        assert (name, others) == ("TensorrtExecutionProvider", ["CUDAExecutionProvider"])
        if unknown := set(given) - KNOWN:
            raise ValueError(f"Invalid TensorRT EP option: {unknown}")
        self.options = given
        model = onnx.load(source) if isinstance(source, str) else onnx.load_from_string(source)
        on_cpu = self.broken or any(node.op_type in self.unsupported for node in model.graph.node)
        if on_cpu and options.get_session_config_entry("session.disable_cpu_ep_fallback") == "1":
            raise RuntimeError(REFUSED)
        if given["trt_engine_cache_enable"] == "1":
            engine = Path(given["trt_engine_cache_path"]) / "TensorrtExecutionProvider_TRTKernel_graph_0_0_sm87.engine"
            if not engine.exists():
                engine.write_text(json.dumps(given) + "engine" * 100)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), onnxruntime.SessionOptions(), providers=["CPUExecutionProvider"]
        )
        return _Session(session)


class _Session:
    def __init__(self, session):
        self.run = session.run

    def get_providers(self):
        return ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]

"""Runs a network or a training file in another Python: ``PYTHON foreign_python_worker.py COMMANDS REPLIES PARENT``.

``foreign_python`` starts this file where edgetune is not installed: it is written for Python 3.6, and imports the
standard library, NumPy, ONNX Runtime and the user's file alone. ``processes.messages`` describes the lines:

    {"command": "versions"}              -> {"ok": true, "versions": {"python": "3.6.9", "onnxruntime": "1.10.0", ...}}
    {"command": "load", "model": ..., "arrays": ..., ...}       -> {"ok": true}
    {"command": "load", "path": ..., "batch_size": 4, ...}      -> {"ok": true}
    {"command": "run", "minibatches": 16}                       -> {"ok": true, "start_ns": [...], "end_ns": [...]}
"""

import ctypes
import faulthandler
import gc
import importlib
import importlib.util
import json
import os
import platform
import re
import signal
import sys
import time
import traceback
from typing import Any, Callable, Dict

NOW_NS = getattr(time, "monotonic_ns", lambda: int(time.monotonic() * 1e9))  # since Python 3.7
THIS = f"{sys.executable} (Python {platform.python_version()})"
SOURCE_LINE = re.compile(r"\S+\.(?:h|cc|cpp|cu):\d+ [^()]*\([^()]*\)(?: const)? ?")
PIP = f"{sys.executable} -m pip install"


class Refusal(Exception):
    """An error of edgetune: the name of its class, its message and its hint."""


def version(*names: str) -> Any:
    """Return the version of the first of some distributions that is installed, or ``None``."""
    for name in names:
        try:
            if importlib.util.find_spec("importlib.metadata") is not None:  # since Python 3.8
                return importlib.import_module("importlib.metadata").version(name)
            return importlib.import_module("pkg_resources").get_distribution(name).version
        except Exception:  # each module has its own
            continue
    return None


def versions() -> Dict[str, Any]:
    """Return what ``devices.software.software_versions`` does."""
    return {
        "python": platform.python_version(),
        "onnxruntime": version("onnxruntime", "onnxruntime-gpu"),
        "torch": version("torch"),
        "tensorrt": version("tensorrt"),
    }


def network(command: Dict[str, Any]) -> Callable[[], object]:
    """Return a step that runs a network on its inputs; see ``ort_session.open_session``."""
    try:
        numpy: Any = importlib.import_module("numpy")
        ort: Any = importlib.import_module("onnxruntime")
    except ImportError as error:
        hint = f"{PIP} onnxruntime (on a Jetson: NVIDIA's onnxruntime-gpu wheel for that Python)"
        raise Refusal("DeviceError", f"{THIS} has no ONNX Runtime: {error}", hint) from None
    runtime, asked = f"ONNX Runtime {ort.__version__} of {THIS}", command["providers"]
    there = ort.get_available_providers()
    if set(asked) - set(there):
        hint = f"{PIP} onnxruntime-gpu (on a Jetson: NVIDIA's wheel for that Python)"
        raise Refusal("DeviceError", f"{runtime} lacks {asked[0]}; it has {', '.join(there)}", hint)
    if "CUDAExecutionProvider" in asked and hasattr(ort, "preload_dlls"):
        ort.preload_dlls()
    options = ort.SessionOptions()
    options.log_severity_level = 4  # an error is an exception
    options.intra_op_num_threads, options.inter_op_num_threads = command["threads"], 1
    try:
        session = ort.InferenceSession(command["model"], options, providers=asked)
    except Exception as error:
        hint = "export it with an older opset, which that version knows"
        raise Refusal("InputError", f"{runtime} cannot load the network: {one_line(error)}", hint) from None
    if session.get_providers()[:1] != asked[:1]:
        hint = "the libraries of that provider are missing, or of another version"
        raise Refusal("DeviceError", f"{runtime} chose {session.get_providers()[0]}, not {asked[0]}", hint)
    with numpy.load(command["arrays"]) as arrays:
        feed = {name: arrays[f"arr_{index}"] for index, name in enumerate(command["inputs"])}
    return lambda: session.run(None, feed)


def training(command: Dict[str, Any]) -> Callable[[], object]:
    """Return the step of a training file; see ``python_file``."""
    path = os.path.abspath(command["path"])
    sys.path.insert(0, os.path.dirname(path))
    spec: Any = importlib.util.spec_from_file_location("edgetune_workload", path)
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    step: Callable[[], object] = module.make(command["batch_size"])
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return step
    if command["threads"]:
        torch.set_num_threads(command["threads"])

    def finished() -> None:
        step()
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()

    return finished


def run(step: Callable[[], object], minibatches: int) -> Dict[str, Any]:
    """Run minibatches back to back; return when each started and ended, CLOCK_MONOTONIC, ns."""
    start_ns, end_ns = [0] * minibatches, [0] * minibatches
    gc.disable()
    for index in range(minibatches):
        start_ns[index] = NOW_NS()
        step()
        end_ns[index] = NOW_NS()
    gc.enable()
    return {"start_ns": start_ns, "end_ns": end_ns}


def one_line(error: BaseException) -> str:
    """Return the message of an exception as one short line; see ``ort_session.one_line``."""
    return SOURCE_LINE.sub("", " ".join(str(error).split()))[:300] or "no message"


def failure(error: BaseException) -> Dict[str, Any]:
    """Return the reply for an exception, with its place in the user's file."""
    if isinstance(error, Refusal):
        kind, message, hint = error.args
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{each[0]}:{each[1]}: " for each in frames if each[0] != __file__ and not each[0].startswith("<")]
        kind, hint = "InputError", f"it ran in {THIS}: mend it for that Python, or install there what it imports"
        message = f"{''.join(places[:1])}the workload raised {type(error).__name__}: {one_line(error)}"
    return {"ok": False, "type": kind, "message": message, "hint": hint}


def main(commands_fd: int, replies_fd: int, parent: int) -> None:
    """Answer commands until their pipe ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: end with the process that started this
    if os.getppid() != parent:
        os._exit(1)
    faulthandler.enable()
    sys.path[:] = [each for each in sys.path if each != os.path.dirname(os.path.abspath(__file__))]
    step: Callable[[], object] = list
    with open(commands_fd, "rb") as commands, open(replies_fd, "wb") as replies:
        for descriptor in (commands_fd, replies_fd):
            os.set_inheritable(descriptor, False)
        for line in commands:
            command: Dict[str, Any] = json.loads(line.decode())
            reply: Dict[str, Any] = {"ok": True}
            try:
                if command["command"] == "versions":
                    reply["versions"] = versions()
                elif command["command"] == "run":
                    reply.update(run(step, command["minibatches"]))
                else:
                    step = network(command) if "model" in command else training(command)
            except (Exception, SystemExit) as error:
                reply = failure(error)
            replies.write(json.dumps(reply).encode() + b"\n")
            replies.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))

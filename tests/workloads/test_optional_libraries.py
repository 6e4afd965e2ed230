"""What does not need PyTorch or ONNX Runtime is imported without them."""

import subprocess
import sys

CODE = """
import importlib, pkgutil, sys
import edgetune.workloads as workloads
sys.modules.update(dict.fromkeys(("torch", "onnxruntime")))
for module in pkgutil.walk_packages(workloads.__path__, "edgetune.workloads."):
    if "torch_" not in module.name or module.name.endswith("torch_required"):
        importlib.import_module(module.name)
"""


def test_only_torch_modules_need_torch():
    subprocess.run([sys.executable, "-c", CODE], check=True)

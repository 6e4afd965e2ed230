"""``numpy`` and ``onnx``, loaded at first use.

    from edgetune.workloads.lazy import np, onnx

replaces ``import numpy as np`` and ``import onnx``. Commands import the modules of this package before they know
whether they read a model, and processes under a memory limit import some of the modules without reading any.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx
else:

    class _Lazy(ModuleType):
        """Placeholder of a module until one of its names is used."""

        def __getattr__(self, name: str) -> Any:
            try:
                return getattr(import_module(self.__name__), name)
            except AttributeError:  # a submodule that the package does not import itself
                return import_module(f"{self.__name__}.{name}")

    np, onnx = _Lazy("numpy"), _Lazy("onnx")

__all__ = ["np", "onnx"]

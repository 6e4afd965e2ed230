"""The libraries that every model needs and no command needs to start, loaded at first use.

    from edgetune.workloads.lazy import np, onnx

reads as ``import numpy as np`` and ``import onnx`` do. Commands import the modules of this package before they know
whether there is a model to read, and processes under a memory limit import some of them and read none.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import onnx
else:

    class _Lazy(ModuleType):
        """Stands for a module until one of its names is used."""

        def __getattr__(self, name: str) -> Any:
            try:
                return getattr(import_module(self.__name__), name)
            except AttributeError:  # a submodule that the package does not load by itself
                return import_module(f"{self.__name__}.{name}")

    np, onnx = _Lazy("numpy"), _Lazy("onnx")

__all__ = ["np", "onnx"]

"""Loaded by Python at its start in the program whose steps edgetune times, and in no other; it changes nothing else.

It takes the pipe out of the environment, so that worker processes report nothing; tells ``edgetune.step`` of it; and,
when the program imports PyTorch, reports the steps of its first optimiser, where CUDA is used after the GPU has
finished. It is written for Python 3.6, see ``foreign_python``: where edgetune cannot be imported, the program still
finds ``edgetune.step``.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import struct
import sys
import time
import types
from typing import Any, Callable

Mark = Callable[[bytes], None]
NOW_NS = getattr(time, "monotonic_ns", lambda: int(time.monotonic() * 1e9))  # since Python 3.7


def _report(descriptor: int) -> None:
    """Set up reporting to a pipe."""
    process = os.getpid()
    record = struct.Struct("=cq").pack

    def mark(kind: bytes) -> None:
        if os.getpid() == process:  # a forked worker has this function too
            with contextlib.suppress(OSError):  # edgetune has what it needs
                os.write(descriptor, record(kind, NOW_NS()))

    module: Any = types.ModuleType("_edgetune_steps")
    module.mark = mark
    sys.modules[module.__name__] = module
    if sys.version_info < (3, 10) or importlib.util.find_spec("edgetune") is None:
        stand_in: Any = types.ModuleType("edgetune")
        stand_in.step = lambda: mark(b"c")
        sys.modules["edgetune"] = stand_in
    sys.meta_path.insert(0, _Finder(mark))


class _Finder:
    """Registers the hook right after ``torch.optim.optimizer`` is loaded."""

    NAME = "torch.optim.optimizer"

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._first: object = None

    def find_spec(self, name: str, *_: object) -> Any:
        """Return the spec of the one module, with a loader that also registers the hook."""
        if name != self.NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def loaded(module: types.ModuleType) -> None:
            execute(module)
            register = getattr(module, "register_optimizer_step_post_hook", None)  # since PyTorch 2.0
            if register is not None:
                register(self._stepped)

        loader.exec_module = loaded
        return spec

    def _stepped(self, optimiser: object, *_: object) -> None:
        if self._first is None:
            self._first = optimiser
        if optimiser is not self._first:  # a step of a program with several optimisers is one step
            return
        cuda = sys.modules.get("torch.cuda")
        if cuda is not None and cuda.is_initialized():
            cuda.synchronize()
        self._mark(b"o")


def _leave_path() -> None:
    """Take this folder out of the paths of this process and of those that it starts."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]
    paths = os.environ.pop("PYTHONPATH", "").split(os.pathsep)
    left = os.pathsep.join(entry for entry in paths if entry != own)  # an empty entry is the present folder
    if left:
        os.environ["PYTHONPATH"] = left


def _chain() -> None:
    """Load the sitecustomize module that this one hides."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_leave_path()
_pipe = os.environ.pop("EDGETUNE_STEP_FD", None)
if _pipe is not None:
    os.set_inheritable(int(_pipe), False)
    _report(int(_pipe))
_chain()

"""Loaded by Python at its start in the program whose steps edgetune times, and in the Python programs that it starts.

It tells ``edgetune.step`` of the pipe and, when the program imports PyTorch, reports the steps of its optimisers, where
CUDA is used after the GPU has finished, and the backward passes before each. Processes that only load data report
nothing, for they take no steps. It is written for Python 3.6, see ``foreign_python``: where edgetune cannot be
imported, the program still finds ``edgetune.step``.
"""

import contextlib
import functools
import importlib.machinery
import importlib.util
import os
import struct
import sys
import time
import types
import weakref
from typing import Any, Callable

Mark = Callable[[bytes, int, int, int], None]
NOW_NS = getattr(time, "monotonic_ns", lambda: int(time.monotonic() * 1e9))  # since Python 3.7
PIPE, PACE = "EDGETUNE_STEP_FD", "EDGETUNE_PACE_FD"
MOST = 65535


def _report(descriptor: int, *, first: bool, pace: int = -1) -> None:
    """Set up reporting to a pipe.

    Args:
        descriptor: Of the pipe.
        first: Whether this is the program itself, and none that it starts.
        pace: A pipe with a byte for each report; the program waits for it. Negative for none.
    """
    record, process = struct.Struct("=cqIHHH").pack, os.getpid()

    def mark(kind: bytes, optimiser: int = 0, optimisers: int = 0, backwards: int = 0) -> None:
        numbers = (min(number, MOST) for number in (optimiser, optimisers, backwards))
        paced = pace >= 0 and kind != b"p" and os.getpid() == process
        if paced or kind == b"o":
            _finish_gpu()
        with contextlib.suppress(OSError):  # edgetune has what it needs
            os.write(descriptor, record(kind, NOW_NS(), os.getpid(), *numbers))
        if paced and not os.read(pace, 1):
            os._exit(0)  # edgetune has ended

    hook = _Finder(mark)
    module: Any = types.ModuleType("_edgetune_steps")
    module.mark = lambda kind: mark(kind, 0, 0, hook.take_backwards())
    sys.modules[module.__name__] = module
    if sys.version_info < (3, 10) or importlib.util.find_spec("edgetune") is None:
        stand_in: Any = types.ModuleType("edgetune")
        stand_in.step = lambda: module.mark(b"c")
        sys.modules["edgetune"] = stand_in
    sys.meta_path.insert(0, hook)
    if first:
        mark(b"p")


class _Finder:
    """Registers the hooks right after ``torch.optim.optimizer`` is loaded."""

    NAME = "torch.optim.optimizer"

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._known: Any = weakref.WeakKeyDictionary()
        self._backwards = self._running = 0

    def find_spec(self, name: str, *_: object) -> Any:
        """Return the spec of the one module, with a loader that also registers the hooks."""
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
                self._count_optimisers(module)
                self._count_backwards(sys.modules.get("torch.autograd"))

        loader.exec_module = loaded
        return spec

    def take_backwards(self) -> int:
        """Return the backward passes since the last report."""
        found, self._backwards = self._backwards, 0
        return found

    def _count_optimisers(self, module: Any) -> None:
        kind = module.Optimizer
        initialise = kind.__init__

        @functools.wraps(initialise)
        def initialised(optimiser: Any, *args: Any, **options: Any) -> None:
            initialise(optimiser, *args, **options)
            self._number(optimiser)

        kind.__init__ = initialised

    def _count_backwards(self, autograd: Any) -> None:
        backward = getattr(autograd, "backward", None)
        if backward is None:
            return

        @functools.wraps(backward)
        def counted(*args: Any, **options: Any) -> Any:
            kept = any(args[2:4]) or options.get("retain_graph") or options.get("create_graph")
            if not kept and not self._running:  # a graph that is kept, and a checkpoint, have the same samples again
                self._backwards += 1
            self._running += 1
            try:
                return backward(*args, **options)
            finally:
                self._running -= 1

        autograd.backward = counted

    def _number(self, optimiser: object) -> int:
        numbers: int = self._known.setdefault(optimiser, max(self._known.values(), default=-1) + 1)
        return numbers

    def _stepped(self, optimiser: object, *_: object) -> None:
        number = self._number(optimiser)
        self._mark(b"o", number, len(self._known), self.take_backwards())


def _finish_gpu() -> None:
    """Wait until the GPU has finished, if the program uses CUDA."""
    cuda = sys.modules.get("torch.cuda")
    if cuda is not None and cuda.is_initialized():
        cuda.synchronize()


def _leave_path() -> None:
    """Take this folder out of the paths of this process; those that it starts find it again by PYTHONPATH."""
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != own]


def _chain() -> None:
    """Load the sitecustomize module that this one hides."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _open() -> None:
    """Report to the descriptor that this process inherited, or to that of the process that started it, by its path."""
    pipe = os.environ.get(PIPE, "")
    with contextlib.suppress(OSError, ValueError):  # a launcher has closed it, or has ended
        descriptor = int(pipe) if pipe.isdigit() else os.open(pipe, os.O_WRONLY)
        pace = int(os.environ.pop(PACE, -1))
        for own in (descriptor, pace):
            if own >= 0:
                os.set_inheritable(own, False)
        os.environ[PIPE] = "/proc/{}/fd/{}".format(os.getpid(), descriptor)
        _report(descriptor, first=pipe.isdigit(), pace=pace)


_leave_path()
_open()
_chain()

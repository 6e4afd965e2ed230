"""Measures a part of a Python program on a device, in a requested power mode, and restores the mode found.

The first window of a process opens the device and records its power; those that begin meanwhile, nested or in other
threads and tasks, join it, and the last to end closes it.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from edgetune.devices.capabilities import Absent
from edgetune.devices.device import Device
from edgetune.errors import InputError
from edgetune.stages.profiling.measure import apply_mode
from edgetune.stages.profiling.window import Meter, Window
from edgetune.workflows.device_option import open_named
from edgetune.workflows.parse_options import choose_modes

_KEPT_WINDOWS = 1000
"""Windows of a decorated function that are kept; the oldest go first."""

_P = ParamSpec("_P")
_R_co = TypeVar("_R_co", covariant=True)


class MeasuredFunction(Protocol[_P, _R_co]):
    """A decorated function; ``windows`` are those of its last 1000 calls, oldest first."""

    windows: deque[Window]

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R_co:
        """Call the function in a window of its own."""


class _OpenMeter:
    """A meter that windows of this process share, and the number of them that are open."""

    def __init__(self, key: _Key, mode: str | None) -> None:
        self.mode, self.windows = mode, 0
        device = _found_devices.get(key) if mode is None else None
        device = _found_devices[key] = device or open_named(*key[1:])
        with ExitStack() as stack:
            stack.enter_context(device.exclusive())
            modes = () if mode is None else choose_modes(device, mode).modes
            if len(modes) > 1:
                raise InputError(f"{mode} names {len(modes)} modes, and a window has one", "name one, e.g. MAXN")
            for each in modes:
                if not isinstance(device.modes, Absent):
                    stack.callback(device.modes.restore)
                apply_mode(device, each)
            self.meter = stack.enter_context(Meter(device))
            self._stack = stack.pop_all()

    def close(self) -> None:
        """End the recording, restore the mode and release the device."""
        self._stack.close()


_Key: TypeAlias = tuple[int, str, str | None]
"""Process, device and root folder: a forked process opens its own."""
_open_meters: dict[_Key, _OpenMeter] = {}
_found_devices: dict[_Key, Device] = {}
"""Devices that windows used: opening one takes tens of milliseconds, too long for each call of a function."""
_lock = threading.RLock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Measurement:
    """A context manager that measures its body, and a decorator that measures each call of a function.

    Args:
        device: As ``edgetune device`` lists it; a real device, neither a twin nor a table.
        mode: A power mode to set meanwhile, as ``--modes`` names one; ``None`` keeps the mode found.
        root: The folder of the board's files, as ``--root``.
        name: Name of its windows.

    Raises:
        InputError: the device or mode is unknown, there are several modes, the open windows have another one, one
            object is entered twice, or a generator is decorated.
        DeviceError: the device is absent, cannot run workloads, or cannot set the mode.
    """

    def __init__(self, device: str, *, mode: str | None, root: str | None, name: str | None) -> None:
        if not isinstance(device, str):
            raise InputError("edgetune.measure: the device is missing", 'write @edgetune.measure("host")')
        self._device, self._mode, self._root, self._name = device, mode, root, name
        self._key: _Key | None = None

    def __enter__(self) -> Window:
        if self._key is not None:
            raise InputError("this window is open already", "call edgetune.measure(...) again for each window")
        key = (os.getpid(), self._device, self._root)
        with _lock:
            opened = _open_meters.get(key)
            first = opened is None
            if opened is None:
                opened = _open_meters[key] = _OpenMeter(key, self._mode)
            elif self._mode not in (None, opened.mode):
                raise InputError(
                    f"mode {self._mode}: open windows measure {self._device} in {opened.mode or 'the mode found'}",
                    "leave mode out of the inner window, or measure one after the other",
                )
            opened.windows += 1
        self._key, self._opened, self._stack = key, opened, ExitStack()
        try:
            if first:
                return self._stack.enter_context(opened.meter.whole(self._name))
            window = Window(opened.meter, self._name)
            opened.meter.begin(window)
            self._stack.callback(opened.meter.end, window)
        except BaseException:
            self._release()
            raise
        return window

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._key is None or self._key[0] != os.getpid():  # a fork of the process whose window it is
            return
        try:
            self._stack.close()
        finally:
            self._release()

    def _release(self) -> None:
        """Close the meter after the last window."""
        key, self._key = self._key, None
        with _lock:
            self._opened.windows -= 1
            if not self._opened.windows and key is not None:
                _open_meters.pop(key, None)
                self._opened.close()

    def __call__(self, function: Callable[_P, _R_co]) -> MeasuredFunction[_P, _R_co]:
        """Return the function, measured at each call; ``windows`` of it are those of its last calls."""
        name = self._name or getattr(function, "__name__", None)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InputError(
                f"{name} is a generator: its body runs after the call has returned",
                "write `with edgetune.measure(...)` inside it, around the work between two yields",
            )
        windows: deque[Window] = deque(maxlen=_KEPT_WINDOWS)

        def measurement() -> Measurement:
            return Measurement(self._device, mode=self._mode, root=self._root, name=name)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def measured_task(*args: Any, **kwargs: Any) -> Any:
                with measurement() as window:
                    windows.append(window)
                    return await function(*args, **kwargs)

            wrapped: Any = measured_task
        else:

            @functools.wraps(function)
            def measured_call(*args: Any, **kwargs: Any) -> Any:
                with measurement() as window:
                    windows.append(window)
                    return function(*args, **kwargs)

            wrapped = measured_call
        wrapped.windows = windows
        return cast("MeasuredFunction[_P, _R_co]", wrapped)


def measure(
    device: str = "auto", *, mode: str | None = None, root: str | None = None, name: str | None = None
) -> Measurement:
    """Return a context manager and decorator that measures; see ``Measurement``."""
    return Measurement(device, mode=mode, root=root, name=name)

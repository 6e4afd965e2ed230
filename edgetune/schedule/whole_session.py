"""A whole network as one layer, to compare with: load it, run it, drop it.

    default    weights inside the file, ONNX Runtime's own settings: it copies them and packs them again
    external   weights beside the graph, mapped; neither copied nor packed

A fair comparison is with both.
"""

from __future__ import annotations

import ctypes
from typing import Any, Literal, get_args

from edgetune.errors import InputError
from edgetune.schedule.executor import Values, open_session, run
from edgetune.schedule.weights import drop_cached
from edgetune.workloads.prepared import Prepared

Form = Literal["default", "external"]
FORMS: tuple[Form, ...] = get_args(Form)


class WholeNetwork:
    """A network of one layer, a ``Runnable``.

    Args:
        prepared: Its folder.
        form: Which of the two.
        threads: Of one execution; ``None`` for as many as ONNX Runtime takes by itself.
        drop_cache: Whether its files leave the page cache when it is unloaded.

    Raises:
        InputError: the folder has no such form.
    """

    def __init__(self, prepared: Prepared, form: Form, *, threads: int | None, drop_cache: bool) -> None:
        if form not in prepared.whole:
            raise InputError(
                f"{prepared.folder} has no whole network in the form {form!r}: it would be too large for one file",
                "run the external form",
            )
        self.inputs = [tensor.name for tensor in prepared.inputs]
        self.outputs = [tensor.name for tensor in prepared.outputs]
        self.reads = [self.inputs]
        self._path = prepared.folder / prepared.whole[form]
        self._files = [prepared.folder / name for name in prepared.files if name.startswith("whole")]
        self._form, self._threads, self._drop_cache = form, threads, drop_cache
        self._libc = ctypes.CDLL(None)

    def load(self, layer: int) -> list[Any]:  # noqa: ARG002 -- there is one
        """Make a session, which reads its weights."""
        return [open_session(self._path, _options(self._form, self._threads))]

    def execute(self, layer: int, loaded: list[Any], values: Values) -> Values:  # noqa: ARG002
        """Run it."""
        return run(loaded[0], self.outputs, values)

    def unload(self, loaded: list[Any]) -> None:
        """Drop the session and have the C library give its memory back."""
        loaded.clear()
        trim = getattr(self._libc, "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)
        if self._drop_cache:
            for path in self._files:
                drop_cached(path)


def _options(form: Form, threads: int | None) -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    if threads is not None:
        options.intra_op_num_threads = threads
    if form == "external":
        options.add_session_config_entry("session.disable_prepacking", "1")
    return options

"""The names of what can be trained; building it is ``network``'s business, which loads PyTorch."""

from __future__ import annotations

import difflib

from edgetune.errors import InputError
from edgetune.version import __version__
from edgetune.workloads.resolve import resolve
from edgetune.workloads.workload import Workload

PROXIES: dict[str, str] = {
    "proxy:cnn": "two convolutions and two dense layers, for images",
    "proxy:mlp": "two dense layers, for anything",
}
"""Small networks defined here."""


def resolve_proxy(reference: str) -> Workload:
    """Return what ``reference`` names: a proxy defined here, a network of the zoo, or an ONNX file.

    Raises:
        InputError: there is no such proxy, network or file, or it is a Python file, whose accuracy nobody can tell.
    """
    if not reference.startswith("proxy:"):
        workload = resolve(reference)
        if workload.kind == "python":
            message = f"{reference} is a Python file: it trains, but does not say how accurate it is"
            raise InputError(message, f"give {', '.join(PROXIES)}, a network of the zoo or an ONNX file")
        return workload
    if reference not in PROXIES:
        near = difflib.get_close_matches(reference, PROXIES, 1)
        listed = f"known: {', '.join(PROXIES)}"
        hint = f"did you mean {near[0]}? {listed}" if near else listed
        raise InputError(f"there is no proxy {reference!r}", hint)
    return Workload(reference, reference, "name", None, f"edgetune {__version__}")

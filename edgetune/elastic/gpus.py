"""GPUs by name, from the catalogue beside this file: ``orin-agx``, ``xavier``, ``h200``, ..."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from edgetune.artifacts.yaml_document import load_yaml
from edgetune.elastic.gpu import Gpu
from edgetune.errors import InputError

_FILE = "gpus.yaml"


@cache
def catalogue() -> dict[str, Gpu]:
    """Return every GPU of the catalogue by name."""
    document = load_yaml(files(__package__).joinpath(_FILE).read_text("utf-8"), name=_FILE)
    return {name: _gpu(name, facts, document["capabilities"]) for name, facts in document["gpus"].items()}


def find_gpu(name: str) -> Gpu:
    """Return the GPU of this name.

    Raises:
        InputError: the catalogue has none; the hint names the nearest.
    """
    import difflib

    known = catalogue()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    raise InputError(f"there is no GPU {name!r} in the catalogue", f"{hint}known: {', '.join(known)}")


def _gpu(name: str, facts: dict[str, Any], capabilities: dict[str, Any]) -> Gpu:
    values = {field: fact["value"] for field, fact in facts.items()}
    limits = dict(capabilities[values["compute_capability"]])
    sources = {"limits": limits.pop("source"), **{field: fact["source"] for field, fact in facts.items()}}
    return Gpu(name=name, **values, **limits, source="; ".join(f"{field}: {text}" for field, text in sources.items()))

"""A language model's operating points from the words of the command line: ``--phase decode --context 512,2048``."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.choices import choose
from edgetune.errors import InputError
from edgetune.workloads.costs.generation import Lengths, open_lengths
from edgetune.workloads.llm import read_decoder
from edgetune.workloads.onnx_file import load_model
from edgetune.workloads.workload import Workload

PHASES = ("prefill", "decode")
_CONTEXT = 2048
"""Tokens where --context is not said: the sequence length that Llama's first models were trained with."""
_MOST_CONTEXT = 1_000_000_000


def with_phase(
    workload: Workload, dimensions: Mapping[str, int], phase: str | None, context: int | None
) -> dict[str, int]:
    """Return the dimensions with those that ``--phase`` and ``--context`` stand for.

    Raises:
        InputError: another phase, one for what is no language model, or both it and --dim.
    """
    if phase is None and context is None and (workload.kind != "llm" or dimensions):
        return dict(dimensions)
    lengths = _needed(workload)
    if phase is None:
        raise InputError("the phase is not said", "--phase prefill (all tokens at once), or --phase decode (the next)")
    return _sized(lengths, dimensions, choose(phase, PHASES, what="phase"), context or _default_context(workload))


def operating_points(
    workload: Workload, dimensions: Mapping[str, int], phase: str | None, contexts: str | None
) -> tuple[dict[str, int], ...]:
    """Return the dimensions of each operating point: of a language model both phases at each context, else one.

    A decoder in ONNX that leaves its lengths open is a language model too. ``--dim`` of a length is one point.

    Args:
        workload: The network.
        dimensions: Those of --dim.
        phase: ``prefill`` or ``decode``; both where it is not said.
        contexts: Tokens, e.g. ``512,2048``.

    Raises:
        InputError: another phase, no number of tokens, either for what is no language model, or both them and --dim.
    """
    said = phase is not None or contexts is not None
    phases = PHASES if phase is None else (choose(phase, PHASES, what="phase"),)
    tokens = None if contexts is None else parse_contexts(contexts)
    lengths = _needed(workload) if said else _lengths(workload)
    if lengths is None or (not said and lengths.names & set(dimensions)):
        return (dict(dimensions),)
    tokens = tokens or (_default_context(workload),)
    return tuple(_sized(lengths, dimensions, each, context) for each in phases for context in tokens)


def parse_contexts(text: str) -> tuple[int, ...]:
    """Return the numbers of tokens in ``512,2048``, in that order, each once.

    Raises:
        InputError: one is no whole number above zero.
    """
    found = []
    for word in map(str.strip, text.split(",")):
        digits = word.isascii() and word.isdigit() and len(word) <= len(str(_MOST_CONTEXT))
        if not digits or not 1 <= int(word) <= _MOST_CONTEXT:
            raise InputError(
                f"--context: {word[:40]!r} is not a whole number from 1 to {_MOST_CONTEXT}", "e.g. --context 512,2048"
            )
        found.append(int(word))
    return tuple(dict.fromkeys(found))


def _sized(lengths: Lengths, dimensions: Mapping[str, int], phase: str, context: int) -> dict[str, int]:
    if lengths.names & set(dimensions):
        raise InputError("--phase and --context say what --dim would", "give one or the other")
    return {**dimensions, **(lengths.sizes(context, 0) if phase == "prefill" else lengths.sizes(1, context))}


def _lengths(workload: Workload) -> Lengths | None:
    """Return the lengths of a language model; ``None`` of another network."""
    if workload.kind == "llm":
        return Lengths("tokens", "past")
    return open_lengths(load_model(workload, weights=False)) if workload.kind == "onnx" else None


def _needed(workload: Workload) -> Lengths:
    found = _lengths(workload)
    if found is None:
        raise InputError(
            f"--phase and --context are for language models, and {workload.reference} is none whose lengths are open",
            "llm:CONFIG is one, or an ONNX file with inputs called past_key_values; --dim fixes any open dimension",
        )
    return found


def _default_context(workload: Workload) -> int:
    """Return the tokens where none are said: fewer where a model has fewer positions, one of which is the next's."""
    positions = read_decoder(workload.path).positions if workload.kind == "llm" and workload.path is not None else 0
    return min(_CONTEXT, positions - 1) if positions > 1 else _CONTEXT

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
    """Return the dimensions completed by those of ``--phase`` and ``--context``.

    Raises:
        InputError: the phase is unknown, the network is no language model, or --dim sets the same length.
    """
    if phase is None and context is None and (workload.kind != "llm" or dimensions):
        return dict(dimensions)
    lengths = _needed(workload)
    if phase is None:
        raise InputError("no phase is given", "--phase prefill (all tokens at once), or --phase decode (the next)")
    return _sized(lengths, dimensions, choose(phase, PHASES, what="phase"), context or _default_context(workload))


def operating_points(
    workload: Workload, dimensions: Mapping[str, int], phase: str | None, contexts: str | None
) -> tuple[dict[str, int], ...]:
    """Return the dimensions of each operating point: for a language model both phases at each context, else one point.

    An ONNX decoder with open lengths counts as a language model. ``--dim`` of a length gives one point.

    Args:
        workload: The network.
        dimensions: The values of --dim.
        phase: ``prefill`` or ``decode``; ``None`` for both.
        contexts: Tokens, e.g. ``512,2048``.

    Raises:
        InputError: an unknown phase, an invalid context, no language model, or --dim of the same length.
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
        InputError: a number is not a whole number above zero.
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
        raise InputError("--phase and --context set the dimensions that --dim sets", "give one or the other")
    return {**dimensions, **(lengths.sizes(context, 0) if phase == "prefill" else lengths.sizes(1, context))}


def _lengths(workload: Workload) -> Lengths | None:
    """Return the lengths of a language model; ``None`` for another network."""
    if workload.kind == "llm":
        return Lengths("tokens", "past")
    return open_lengths(load_model(workload, weights=False)) if workload.kind == "onnx" else None


def _needed(workload: Workload) -> Lengths:
    found = _lengths(workload)
    if found is None:
        raise InputError(
            f"--phase and --context are for language models, and {workload.reference} has no open lengths",
            "llm:CONFIG is one, or an ONNX file with inputs called past_key_values; --dim fixes any open dimension",
        )
    return found


def _default_context(workload: Workload) -> int:
    """Return the default context, in tokens: limited by the positions of the model less one for the next token."""
    positions = read_decoder(workload.path).positions if workload.kind == "llm" and workload.path is not None else 0
    return min(_CONTEXT, positions - 1) if positions > 1 else _CONTEXT

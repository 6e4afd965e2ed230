"""Prints the bounds of a language model: tokens per second and joules per token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import print_folded, print_lines, table
from edgetune.units import format_si
from edgetune.workflows.cells import cell, rows_of

if TYPE_CHECKING:
    from edgetune.stages.roofline.placement import Placement, TokenBound
    from edgetune.workflows.roofline.network import Placed


def token_bounds(placed: Placed) -> list[TokenBound]:
    """Return the bounds of a language model at each operating point; none for any other network."""
    from edgetune.stages.roofline.placement import token_bound

    found = [token_bound(each, memory_bytes=placed.memory_bytes) for each in placed.placements]
    return [each for each in found if each is not None]


def of_pass(placement: Placement, sentence: str) -> str:
    """Prefix a sentence with the pass of a language model that it describes."""
    return sentence if placement.point is None else f"{placement.point}: {sentence}"


def show_tokens(found: Sequence[Placed]) -> None:
    """Print the bounds of a language model, and the points that do not fit into memory; nothing for other networks."""
    bounds = [(placed, bound) for placed in found for bound in token_bounds(placed)]
    if not bounds:
        return
    print_lines()
    print_folded(_TITLE)
    figures: dict[str, Callable[[tuple[Placed, TokenBound]], str | None]] = {
        "roof": lambda of: of[0].roof.precision if len(found) > 1 else None,
        "pass": lambda of: of[1].name,
        "batch>": lambda of: str(of[1].batch_size),
        "tokens/s <=>": lambda of: _rate(of[1].tokens_per_s),
        "J/token >=>": lambda of: cell(of[1].token_j, lambda joules: format_si(joules, "J")),
        "first token >=>": lambda of: cell(of[1].first_token_s, lambda first_s: format_si(first_s, "s")),
        "measured/s>": lambda of: cell(of[1].measured_tokens_per_s, _rate),
        "cache>": lambda of: format_si(of[1].cache_bytes, "B"),
    }
    table(*rows_of(figures, bounds))
    weights = {f"weights in {each.roof.precision} take {format_si(bound.weights_bytes, 'B')}" for each, bound in bounds}
    print_folded("; ".join(sorted(weights)))
    for sentence in dict.fromkeys(_too_large(bound) for _, bound in bounds if bound.fits is False):
        print_folded(sentence)


_TITLE = "tokens, as the measured roofs bound them: what a runtime reaches is less"


def _rate(per_s: float) -> str:
    """Return tokens per second, without thousandths of a token."""
    return format_si(per_s, "") if per_s >= 1 else f"{per_s:.3g}"


def _too_large(bound: TokenBound) -> str:
    needed = format_si(bound.weights_bytes + bound.cache_bytes, "B")
    has = format_si(bound.memory_bytes or 0, "B")
    return (
        f"note: {bound.name} at batch {bound.batch_size} does not fit: weights and cache take {needed}, "
        f"and the device has {has}"
    )


def machine_tokens(placed: Placed) -> list[dict[str, Any]] | None:
    """Return the bounds for machines; ``None`` for any other network."""
    from edgetune.artifacts.yaml_document import plain

    return [plain(bound) for bound in token_bounds(placed)] or None

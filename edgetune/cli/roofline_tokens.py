"""Prints the bounds of a language model: tokens per second and joules per token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from edgetune.cli.screen import print_folded, print_lines, table
from edgetune.units import format_si

if TYPE_CHECKING:
    from edgetune.stages.roofline.placement import Placement
    from edgetune.stages.roofline.tokens import TokenBound
    from edgetune.workflows.roofline.placed import Placed


def token_bounds(placed: Placed) -> list[TokenBound]:
    """Return what the roof allows at each operating point; none of another network."""
    from edgetune.stages.roofline.tokens import token_bound

    found = [token_bound(each, memory_bytes=placed.memory_bytes) for each in placed.placements]
    return [each for each in found if each is not None]


def of_pass(placement: Placement, sentence: str) -> str:
    """Return a sentence with the pass of a language model that it is about."""
    return sentence if placement.point is None else f"{placement.point}: {sentence}"


def show_tokens(found: Sequence[Placed]) -> None:
    """Print what the roofs allow a language model, and where it does not fit into memory; nothing for another."""
    bounds = [(placed, bound) for placed in found for bound in token_bounds(placed)]
    if not bounds:
        return
    print_lines()
    print_folded(_TITLE)
    rows = [(placed.roof.precision if len(found) > 1 else None, *_row(bound)) for placed, bound in bounds]
    told = [index for index in range(len(_COLUMNS)) if any(row[index] is not None for row in rows)]
    table([_COLUMNS[index] for index in told], [[row[index] for index in told] for row in rows])
    weights = {f"weights in {each.roof.precision} take {format_si(bound.weights_bytes, 'B')}" for each, bound in bounds}
    print_folded("; ".join(sorted(weights)))
    for sentence in dict.fromkeys(_too_large(bound) for _, bound in bounds if bound.fits is False):
        print_folded(sentence)


_TITLE = "tokens, as the measured roofs bound them: what a runtime reaches is less"


_COLUMNS = (
    "roof", "pass", "batch>", "tokens/s <=>", "J/token >=>", "first token >=>", "measured/s>", "cache>",
)  # fmt: skip


def _row(bound: TokenBound) -> tuple[str | None, ...]:
    """Return the cells about one operating point."""
    joules, first_s, reached = bound.token_j, bound.first_token_s, bound.measured_tokens_per_s
    return (
        bound.name, str(bound.batch_size), _rate(bound.tokens_per_s),
        None if joules is None else format_si(joules, "J"), None if first_s is None else format_si(first_s, "s"),
        None if reached is None else _rate(reached), format_si(bound.cache_bytes, "B"),
    )  # fmt: skip


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
    """Return the same for machines; ``None`` of another network."""
    from edgetune.artifacts.plain import plain

    return [plain(bound) for bound in token_bounds(placed)] or None

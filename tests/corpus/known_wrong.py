"""What edgetune still gets wrong, by test and network: each must fail, and leaves this list once it passes."""

KNOWN_WRONG: dict[str, frozenset[str]] = {
    "measured": frozenset(),
    "twice": frozenset(),
    "ops": frozenset({"four_bit_weights"}),
    "ops_twice": frozenset(),
}

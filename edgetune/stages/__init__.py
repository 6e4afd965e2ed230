"""The stages of a chain: each is pure but for its live modules, and none imports another."""

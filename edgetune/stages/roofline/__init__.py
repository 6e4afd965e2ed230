"""Rooflines: what a device can do at most, where a network lies beneath it, and what bounds it there."""

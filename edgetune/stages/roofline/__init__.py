"""Rooflines: the peaks of a device, the position of a network beneath them, and what bounds it."""

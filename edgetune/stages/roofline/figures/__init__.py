"""Figures of rooflines: time and energy over intensity."""

"""Workflows of ``edgetune device`` and ``edgetune doctor``: modes, readings, twins, and what a machine can do."""

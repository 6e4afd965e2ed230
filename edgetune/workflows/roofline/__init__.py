"""Workflows of ``edgetune roofline``: peaks, a network beneath them, a tuned plan, and the costs of operators."""

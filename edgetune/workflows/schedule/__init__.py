"""Workflows of ``edgetune schedule``: prepare networks, measure layers, and run jobs."""

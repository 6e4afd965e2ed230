"""Workflows of ``edgetune profile``, ``merge`` and ``compare``: measured tables, and epochs to an accuracy."""

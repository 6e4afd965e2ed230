"""Workflows of ``edgetune profile`` and ``edgetune merge``: measured tables, and epochs to an accuracy."""

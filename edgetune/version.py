"""The version of edgetune."""

__version__ = "0.1.0"

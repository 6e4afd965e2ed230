"""edgetune: power modes, batch sizes and schedules for neural networks on edge accelerators."""

__version__ = "0.1.0"

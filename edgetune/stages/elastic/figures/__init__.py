"""Figures of elastic kernels."""

"""Elastic forms of kernels that are there as PTX only, made behind the compiler instead of in front of it."""

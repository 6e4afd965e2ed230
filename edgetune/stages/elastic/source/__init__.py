"""CUDA C read and rewritten: what a kernel is made of, whether it may be made elastic, and its elastic forms."""

"""CUDA kernels made elastic: best-effort work in pieces that fit into what critical work leaves free."""

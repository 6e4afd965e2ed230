"""Workflows of ``edgetune schedule kernels``: best-effort kernels in the gaps that critical work leaves on a GPU.

transform   kernels of a CUDA C or PTX file made elastic; with ``check`` tried on the CPU and on a GPU
shrink      the pieces of a kernel that are worth launching beside a critical kernel
share       tasks that share a GPU: simulated by a model, or run on a real one; ``plan`` says what runs
bench       the benchmark of critical and best-effort networks, by several policies
place       where tasks run: the model of a GPU, or a GPU that is opened
"""

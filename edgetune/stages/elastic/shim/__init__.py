"""CUDA C kernels on the CPU, for checks: compiled by g++, a fiber for each thread, in a process of its own.

    built = build(source)                                          # shim.build
    outcome = built.run([ShimLaunch(...)], {"a": array}, REVERSE)   # shim.run
    outcome.status, outcome.line, outcome.buffers["a"]

It checks results and barriers under several orders of threads and blocks. It says nothing about speed, and fibers
switch
only where they wait: two threads that write the same place without a barrier show where the order of threads changes
the result.
"""

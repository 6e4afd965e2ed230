"""CUDA C kernels on the CPU, for tests: compiled by g++, a fiber for each thread, in a process of its own.

    built = build(source)                                          # shim.build
    outcome = built.run([ShimLaunch(...)], {"a": array}, REVERSE)   # shim.run
    outcome.status, outcome.line, outcome.buffers["a"]

It says whether results are right and barriers are met, under several orders of threads and blocks. It says nothing of
speed, and fibers give way only where they wait: two threads that write the same place without a barrier are noticed
where the order of threads changes the result.
"""

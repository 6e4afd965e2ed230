"""A program ``edgetune`` for shells whose process is a fork of one that has imported the libraries already.

shell --> client (10 ms) --> server: imports done --> fork: the command, with what the client has open and set
"""

import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

MODULES = (
    "pyarrow.parquet", "pyarrow.compute", "pyarrow.csv", "pydantic", "yaml", "onnx", "scipy.special", "scipy.optimize",
    "scipy.stats", "matplotlib.figure", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg",
    "rich.table",
    "edgetune.cli.app", "edgetune.interface", "edgetune.artifacts.io", "edgetune.workflows.search.run",
    "edgetune.workflows.profile.profile", "edgetune.workflows.report.report", "edgetune.workflows.roofline.roofline",
)  # fmt: skip
CLIENT = """#!{python} -IS
import array, marshal, os, sys, _socket
asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
asked.connect({path!r})
streams = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))
asked.sendmsg([marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))], [streams])
code = int(asked.recv(16) or 1)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextmanager
def warm_edgetune(folder: Path) -> Iterator[Path]:
    """Serve commands while the context lasts, and yield the folder of the program."""
    path, program = f"edgetune-warm-{os.getpid()}", folder / "edgetune"
    program.write_text(CLIENT.format(python=sys.executable, path=f"\0{path}"))
    program.chmod(0o755)
    words = [sys.executable, __file__, path]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        assert server.stdout.readline() == b"ready\n"
        yield folder
        server.stdin.close()


def serve(path: str) -> None:
    """Run each command that comes in a process of its own, whose exit code another one waits for, until input ends."""
    from edgetune.cli.main import main

    for module in MODULES:
        import_module(module)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(f"\0{path}")
    listener.listen(64)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.write(1, b"ready\n")
    while True:
        if sys.stdin in select.select([listener, sys.stdin], [], [])[0]:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            break
        connection.close()
    listener.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    if (child := os.fork()) != 0:
        for stream in streams:
            os.close(stream)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(BrokenPipeError):
            connection.sendall(str(code).encode())
        os._exit(0)
    connection.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    words, folder, variables = marshal.loads(data)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    main(words)


if __name__ == "__main__":
    serve(sys.argv[1])

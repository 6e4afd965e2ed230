"""A network namespace whose processes reach one port of this machine, and back one of theirs: through Unix sockets.

    tunnel.py FOLDER PORT BACK                on this machine
    tunnel.py FOLDER PORT BACK COMMAND...     in the namespace: runs COMMAND beside the tunnel

As of ``ssh -L`` and ``ssh -R``, neither end knows who is behind the tunnel.
"""

import fcntl
import os
import signal
import socket
import struct
import sys
import threading
from pathlib import Path

from edgetune.processes.messages import die_with

_SIOCSIFFLAGS, _IFF_UP = 0x8914, 1  # <linux/sockios.h>, <linux/if.h>


def _near(folder: Path, port: int, back: int) -> None:
    _carry(folder / "out", port)
    _carry(back, folder / "in")


def _far(folder: Path, port: int, back: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    _carry(port, folder / "out")
    _carry(folder / "in", back)


def _carry(source: int | Path, target: int | Path) -> None:
    listener = _socket(source)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(_address(source))
    listener.listen()
    threading.Thread(target=_accept, args=(listener, target), daemon=True).start()


def _accept(listener: socket.socket, target: int | Path) -> None:
    while True:
        one, other = listener.accept()[0], _socket(target)
        try:
            other.connect(_address(target))
        except OSError:
            one.close()
            continue
        for source, sink in ((one, other), (other, one)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def _socket(end: int | Path) -> socket.socket:
    return socket.socket(socket.AF_INET if isinstance(end, int) else socket.AF_UNIX)


def _address(end: int | Path) -> tuple[str, int] | str:
    return ("127.0.0.1", end) if isinstance(end, int) else str(end)


def _main(folder: str, port: str, back: str, *command: str) -> None:
    own = os.getpid()
    if command and os.fork():
        os.execvp(command[0], command)
    if command:
        die_with(own)
    (_far if command else _near)(Path(folder), int(port), int(back))
    signal.pause()


if __name__ == "__main__":
    _main(*sys.argv[1:])

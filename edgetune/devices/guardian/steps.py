"""The process of root behind an edgetune that was started through sudo: guardians, and the steps of a fixed list.

Requests come from a process of the calling user, who may be a hostile model's: nothing else can be asked for, each step
checks its arguments, and none opens a file by a name that the caller could have made. It ends with its caller.
"""

import errno
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from edgetune.processes import privilege

_STEPS = {
    "read_sensor": "edgetune.devices.sysfs",
    "permitted": "edgetune.devices.sysfs",
    "listed": "edgetune.devices.sysfs",
    "share_system": "edgetune.devices.guardian.lock",
    "journals_left": "edgetune.devices.guardian.journal",
    "make_group": "edgetune.processes.cgroup",
    "remove_group": "edgetune.processes.cgroup",
    "write_group": "edgetune.processes.cgroup",
    "systemd_answers": "edgetune.processes.cgroup",
    "start_scope": "edgetune.processes.cgroup",
}
"""Every step and its module, which is imported when it is first asked for."""
_DEVICE = re.compile(r"[a-z][a-z0-9:?=-]{0,63}")
_LONGEST_REQUEST_BYTES = 1 << 16
_STREAMS = 4
"""Descriptors of a guardian: its requests, its replies, its log, and where its exit code is written."""


def main(arguments: list[str]) -> None:
    """Serve the caller until it closes its socket.

    Args:
        arguments: Descriptor of the socket, and the caller's user id.
    """
    channel = socket.socket(fileno=int(arguments[0]))
    privilege.served_user = int(arguments[1])
    while True:
        request, descriptors, _, _ = socket.recv_fds(channel, _LONGEST_REQUEST_BYTES, _STREAMS, socket.MSG_CMSG_CLOEXEC)
        if not request:
            return
        try:
            reply = _answer(request, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        with suppress(ConnectionError):
            channel.send(json.dumps(reply).encode())


def _answer(request: bytes, descriptors: Sequence[int]) -> dict[str, Any]:
    number = -1
    try:
        number, step, arguments = json.loads(request)
        if step == "guard":
            value = _guard(arguments[0], descriptors)
        else:
            value = getattr(import_module(_STEPS[step]), step)(*arguments)
    except OSError as error:
        return {"number": number, "errno": error.errno or errno.EIO, "why": error.strerror or str(error)}
    except Exception as error:  # whatever is asked, this process goes on
        return {"number": number, "errno": errno.EINVAL, "why": type(error).__name__}
    return {"number": number, "value": value}


def _guard(device: str, descriptors: Sequence[int]) -> int:
    """Start the guardian of a device and return its process id; its exit code is written once it has ended."""
    if not _DEVICE.fullmatch(device):
        raise PermissionError(errno.EPERM, "no device has such a name")
    requests, replies, log, end = descriptors
    process = subprocess.Popen(
        [sys.executable, "-I", "-m", "edgetune.devices.guardian", device],
        stdin=requests, stdout=replies, stderr=log, start_new_session=True,
    )  # fmt: skip
    threading.Thread(target=_report, args=(process, os.dup(end)), daemon=True).start()
    return process.pid


def _report(process: subprocess.Popen[bytes], end: int) -> None:
    with open(end, "wb") as file, suppress(BrokenPipeError):
        file.write(str(process.wait()).encode())


if __name__ == "__main__":
    main(sys.argv[1:])

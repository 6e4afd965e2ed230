"""What the guardian gives up before it looks at anything from outside: it writes files that root owns, no more.

Root without capabilities still owns the files of sysfs and debugfs and its journal, which is all that a board or a host
asks for. NVIDIA's driver asks for CAP_SYS_ADMIN. Source: capabilities(7); NV_IS_SUSER in open-gpu-kernel-modules.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

CAP_SYS_ADMIN = 21
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION_3 = 0x20080522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Word(ctypes.Structure):
    _fields_ = (("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32))


def confine(keep: Collection[int] = ()) -> None:
    """Take a session of its own, and give up descriptors, environment, folder, core dumps and capabilities.

    What the kernel does not know is left as it is: a guardian must be able to put a board back wherever it was started.

    Args:
        keep: Numbers of the capabilities that stay.
    """
    hold_standard_streams()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.environ.clear()
    os.environ.update(PATH=SYSTEM_PATH, LANG="C.UTF-8")
    os.chdir("/")
    os.umask(0o077)
    with suppress(OSError):  # it leads a process group: then no key reaches that
        os.setsid()
    shun_oom_killer()
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, AttributeError):
        _give_up_capabilities(keep)


def hold_standard_streams() -> None:
    """Put ``/dev/null`` where a standard stream is closed, lest the journal be opened in its place and written into."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


def shun_oom_killer() -> None:
    """Ask the kernel to end any other process first when memory runs out: networks take all of it, this one puts back.

    Source: proc(5), ``oom_score_adj``: -1000 takes a process out of the choice; only root may ask for that.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("-1000")


def _give_up_capabilities(keep: Collection[int]) -> None:
    """Keep no capability but these, also for programs that are started, whatever owns or marks their files.

    Raises:
        OSError: the kernel refuses.
        AttributeError: this system has no capabilities.
    """
    library = ctypes.CDLL(None, use_errno=True)
    words = (_Word * 2)()
    for number in keep:
        bit = 1 << number % 32
        words[number // 32].effective |= bit
        words[number // 32].permitted |= bit
    refused = library.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if library.capset(ctypes.byref(_Header(_CAPABILITY_VERSION_3, 0)), words) or refused:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

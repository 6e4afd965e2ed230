"""systemd units of the guardian: one restores at boot, and a socket gives a group access without sudo.

Both run ``edgetune-guardian`` in a sandbox that permits writes only to the kernel's files and the journal.
"""

from __future__ import annotations

from pathlib import Path

GROUP = "edgetune"
"""The group whose members may use the socket and so set modes."""

_SANDBOX = """\
Environment=LANG=C.UTF-8
UMask=0077
StateDirectory=edgetune
StateDirectoryMode=0700
RuntimeDirectory=edgetune
RuntimeDirectoryMode=0755
RuntimeDirectoryPreserve=yes
LimitCORE=0
OOMScoreAdjust=-1000
NoNewPrivileges=yes
CapabilityBoundingSet={capabilities}
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices={private_devices}
PrivateNetwork=yes
PrivateIPC=yes
IPAddressDeny=any
RestrictAddressFamilies=AF_UNIX
ProtectClock={private_devices}
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
KeyringMode=private
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources @mount @clock @debug
SystemCallFilter=capset setrlimit prlimit64
SystemCallErrorNumber=EPERM
# ProtectKernelTunables= would make /sys read-only, which is what the guardian writes."""

_RESTORE = """\
[Unit]
Description=Put back what edgetune left on {device} when the machine stopped
ConditionPathExistsGlob=/var/lib/edgetune/{file}.*.json
After=local-fs.target nvpmodel.service nvpower.service nvidia-persistenced.service

[Service]
Type=oneshot
ExecStart={launcher} {device} --restore
TimeoutStartSec=2min
{sandbox}

[Install]
WantedBy=multi-user.target
"""

_SOCKET = """\
[Unit]
Description=Modes of {device} for members of the group {group}

[Socket]
ListenStream=/run/edgetune/guardian-{file}.sock
SocketGroup={group}
SocketMode=0660
DirectoryMode=0755
Accept=yes
MaxConnections=4

[Install]
WantedBy=sockets.target
"""

_SERVICE = """\
[Unit]
Description=The guardian of {device}, for one connection
After=local-fs.target nvpmodel.service

[Service]
ExecStart={launcher} {device}
StandardInput=socket
StandardOutput=socket
StandardError=journal
TimeoutStopSec=2min
{sandbox}
"""


def guardian_units(device: str, launcher: Path) -> dict[str, str]:
    """Return the texts of a device's units, by file name.

    Args:
        device: Device name without options, e.g. ``jetson``.
        launcher: The script that starts the guardian.
    """
    file = device.replace(":", "-")
    nvidia = device.startswith("nvidia")  # its driver needs device files and a capability
    sandbox = _SANDBOX.format(
        capabilities="CAP_SYS_ADMIN" if nvidia else "",
        private_devices="no" if nvidia else "yes",
    )
    words = {"device": device, "file": file, "launcher": launcher, "group": GROUP, "sandbox": sandbox}
    return {
        f"edgetune-restore-{file}.service": _RESTORE.format(**words),
        f"edgetune-guardian-{file}.socket": _SOCKET.format(**words),
        f"edgetune-guardian-{file}@.service": _SERVICE.format(**words),
    }

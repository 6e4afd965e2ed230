"""The child process that compares a network with another batch size: see ``batch_check.compare``.

{"workload": {...}, "exported": 1, "dimensions": {}, "inputs": null, "seed": 0}    -> {"ok": true, "same": true}
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from edgetune.processes.serving import serve
from edgetune.workloads.batch_check import compare
from edgetune.workloads.workload import Workload


def main(arguments: list[str]) -> None:
    """Serve the command above until its pipe ends."""

    def handle(command: Mapping[str, Any]) -> dict[str, Any]:
        workload = Workload.from_plain(command["workload"])
        found: dict[str, Any] = compare(
            workload, command["exported"], command["dimensions"], command["inputs"], command["seed"]
        )
        return found

    serve(arguments, handle)


if __name__ == "__main__":
    main(sys.argv[1:])

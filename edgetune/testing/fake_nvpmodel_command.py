"""The fake ``nvpmodel`` as a command: ``python -m edgetune.testing.fake_nvpmodel_command ROOT -q``."""

import sys
from pathlib import Path

from edgetune.testing import fake_nvpmodel
from edgetune.testing.fake_kernel import FakeKernel


def _main(arguments: list[str]) -> int:
    kernel = FakeKernel(Path(arguments[0]).resolve())
    code, text = fake_nvpmodel.command(kernel, kernel.board, arguments[1:])
    sys.stdout.write(text)
    return code


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))

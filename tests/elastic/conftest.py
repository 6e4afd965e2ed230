import shutil
import subprocess

import pytest

from edgetune.stages.elastic.shim import build


@pytest.fixture(scope="session", autouse=True)
def header_compiled_once(tmp_path_factory):
    """Have g++ read the shim's header, half of what it compiles for a small kernel, in its precompiled form."""
    if (compiler := shutil.which("g++")) is None:
        yield
        return
    header = tmp_path_factory.mktemp("header") / build._HEADER
    header.write_text(f'#include "{build._HERE / build._HEADER}"\n')
    subprocess.run([compiler, *build.FLAGS, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "_HEADER", str(header))  # an absolute path is not below another
        yield

"""Handler files: what they must define, and how what they raise is told."""

import pytest

from edgetune.errors import InputError
from edgetune.workloads.python_file import open_handler


@pytest.fixture
def written(tmp_path):
    """Return a function that writes a handler file."""

    def write(source):
        path = tmp_path / "handle.py"
        path.write_text(source)
        return path

    return write


@pytest.mark.parametrize("source", ["", "inputs = {}\n"])
def test_a_file_with_neither_is_refused(written, source):
    with pytest.raises(InputError, match=r"handle.py defines neither inputs") as refused:
        open_handler(written(source))
    assert "a handler file defines" in refused.value.hint


def test_an_exception_of_a_function_names_the_line(written):
    handler = open_handler(written("def inputs(request, line):\n    raise SystemExit('done')\n"))
    with pytest.raises(InputError, match=r"handle.py:2: inputs\(\) raised SystemExit: done"):
        handler.inputs(0, None)

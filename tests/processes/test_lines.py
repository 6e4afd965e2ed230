"""Lines between a process and its child: what is written is read, and nothing else is taken for it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.processes.messages import decoded, encoded

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_a_written_message_is_one_line_and_is_read_back(message):
    line = encoded(message)
    assert line.index(b"\n") == len(line) - 1
    assert decoded(line) == decoded(line[:-1]) == message


@pytest.mark.parametrize(
    "line", [b"", b"\n", b"hello\n", b'{"ok": true} {"ok": true}\n', b'{"ok"', b"\xff\n", b"{}1\n"]
)
def test_anything_else_is_refused(line):
    with pytest.raises(ValueError, match=r"Expecting|more than one value|codec"):
        decoded(line)

"""Limits are set by name, refuse in two lines, and are passed on to child processes."""

import itertools
import os
import signal
import time
from pathlib import Path

import pytest

from edgetune import limits
from edgetune.errors import InputError
from edgetune.limits import LIMITS, beyond, check, limit, limited, raised, read_file, set_limits


@pytest.fixture(autouse=True)
def _defaults():
    yield
    set_limits(())


def test_a_limit_is_raised_and_goes_back_to_its_default():
    set_limits(["file_bytes=1GiB", "table_cells=2e7"])
    assert (limit("file_bytes"), limit("table_cells")) == (2**30, 20_000_000)
    assert sorted(raised()) == ["file_bytes=1073741824", "table_cells=20000000"]
    set_limits(())
    assert limit("file_bytes") == LIMITS["file_bytes"].default
    assert raised() == []


@pytest.mark.parametrize("found", [float("nan"), float("inf"), 1e300])
def test_what_cannot_be_counted_is_beyond_every_limit(found):
    with pytest.raises(InputError, match="more"):
        check("table_cells", found, "x")


def test_the_hint_is_a_line_that_raises_the_limit():
    hint = beyond("table_cells", "x.csv", 5_000_001).hint
    word = hint.partition("--raise-limit ")[2].split()[0]
    set_limits([word])
    check("table_cells", 5_000_001, "x.csv")


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("table_cell=1", "no limit 'table_cell'", "did you mean table_cells?"),
        ("file_bytes", "file_bytes has no value", "e.g. --raise-limit file_bytes="),
        ("file_bytes=1W", "unknown unit 'W'", "known: B"),
        ("table_cells=1MB", "'1MB', not a number of cells", "e.g. --raise-limit table_cells="),
        ("table_cells=0", "'0', not a number", "e.g."),
        ("table_cells=nan", "'nan', not a number", "e.g."),
    ],
)
def test_a_wrong_limit_is_named(word, message, hint):
    with pytest.raises(InputError) as caught:
        set_limits([word])
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_memory_is_bounded_for_a_while():
    with limits.bounded_memory(64 << 20) as bounded:
        assert bounded
        with pytest.raises(MemoryError):
            bytearray(256 << 20)
    bytearray(256 << 20)


def test_a_computation_is_interrupted_after_its_processor_time():
    started_s = time.process_time()
    refused = pytest.raises(InputError, match="the drawing takes more seconds than the limit figure_seconds allows")
    with limited(figure_seconds=1), refused, limits.bounded_cpu_time("figure_seconds", "the drawing"):
        any(time.process_time() > started_s + 60 for _ in itertools.count())
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGPROF) is signal.SIG_DFL


def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no program writes to this pipe"):
        read_file(tmp_path / "pipe")


def test_a_pipe_with_a_writer_is_read():
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as file:
        file.write(b"text")
    assert read_file(Path(f"/dev/fd/{reading}")) == b"text"
    os.close(reading)

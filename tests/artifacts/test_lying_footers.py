"""A Parquet file whose footer lies about sizes is read within a bound on memory, and refused in two lines."""

import io
import struct
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 8_000_017
TEXT = "x" * 100_000


def _varint(number: int, length: int = 0) -> bytes:
    """Return a number as the footer writes it, in Thrift's compact protocol; longer than it has to be, if asked."""
    number, out = 2 * number, bytearray()
    while number or not out:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out += b"\x80" * (length - len(out))
    out[-1] &= 0x7F
    return bytes(out)


def _lying(table: pa.Table, said: dict[str, int]) -> bytes:
    """Return a file whose footer says other sizes than there are: ``rows`` or ``bytes`` of all columns."""
    sink = io.BytesIO()
    pq.write_table(
        table, sink, compression="zstd", write_statistics=False, store_schema=False, row_group_size=len(table)
    )
    data = sink.getvalue()
    (length,) = struct.unpack("<I", data[-8:-4])
    head, footer = data[: -8 - length], data[-8 - length : -8]
    group = pq.ParquetFile(io.BytesIO(data)).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    true = {
        "rows": {group.num_rows, *(each.num_values for each in columns)},
        "bytes": {group.total_byte_size, *(each.total_uncompressed_size for each in columns)},
    }
    for what, number in said.items():
        for each in true[what]:
            was = _varint(each)
            assert was in footer
            footer = footer.replace(was, _varint(number, len(was)))
    return head + footer + data[-8:]


def _rows() -> pa.Table:
    return pa.table({"a": pa.repeat(pa.scalar(1.5), ROWS), "b": pa.repeat(pa.scalar(7), ROWS)})


def _texts() -> pa.Table:
    indices = pa.repeat(pa.scalar(0, pa.int32()), 20_011)
    return pa.table({"a": pa.DictionaryArray.from_arrays(indices, pa.array([TEXT]))})


def _list() -> pa.Table:
    values = pa.repeat(pa.scalar(0.1), 20_000_003)
    return pa.table({"a": pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)})


def _few() -> pa.Table:
    return pa.table({"a": [1.5] * 1001})


FILES = {
    "fewer rows than there are": lambda: _lying(_rows(), {"rows": 10}),
    "fewer bytes than there are": lambda: _lying(_rows(), {"bytes": 10, "rows": 100_000}),
    "texts of fewer bytes": lambda: _lying(_texts(), {"bytes": 10}),
    "texts of fewer rows": lambda: _lying(_texts(), {"rows": 3}),
    "a list of fewer values": lambda: _lying(_list(), {"rows": 1, "bytes": 10}),
    "more rows than there are": lambda: _lying(_few(), {"rows": 8191}),
    "no rows": lambda: _lying(_few(), {"rows": 0}),
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    """What reading each file comes to, and by how many MB the peak of memory rises; all in one process."""
    folder = tmp_path_factory.mktemp("files")
    for number, make in enumerate(FILES.values()):
        (folder / f"{number}").write_bytes(make())
    code = (
        "import sys, pyarrow.parquet\n"
        "from edgetune.artifacts import io\n"
        "from edgetune.errors import InputError\n"
        "from pathlib import Path\n"
        "def peak():\n"
        "    lines = Path('/proc/self/status').read_text().splitlines()\n"
        "    return next(int(line.split()[1]) for line in lines if line.startswith('VmHWM')) >> 10\n"
        "for number in range(int(sys.argv[2])):\n"
        "    data = Path(sys.argv[1], str(number)).read_bytes()\n"
        "    before = peak()\n"
        "    try:\n"
        "        io.from_bytes(data, kind='profile', name='x.parquet')\n"
        "        end = 'read'\n"
        "    except InputError as error:\n"
        "        end = error.message.replace('\\n', ' ')\n"
        "    print(peak() - before, end)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(len(FILES))], capture_output=True, text=True, check=True
    )
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {what: (end, int(rise)) for what, (rise, _, end) in zip(FILES, lines, strict=True)}


@pytest.mark.parametrize("what", FILES)
def test_a_footer_that_lies_ends_in_two_lines_within_bounds(ends: dict[str, tuple[str, int]], what: str) -> None:
    end, rise_mb = ends[what]
    assert end.startswith("x.parquet")
    assert rise_mb < 400

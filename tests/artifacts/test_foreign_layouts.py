"""Tables as other people and programs lay them out: read, with the right figures, or refused with one clear line."""

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from edgetune.artifacts import io
from edgetune.artifacts.profile import ProfileRow
from edgetune.devices.recorded import RecordedTable
from edgetune.errors import InputError

TWO = (
    ProfileRow("net", "infer", 1, 0.02025, gpu_mhz=900.5, power_w=9.5),
    ProfileRow("net", "infer", 4, 0.06, gpu_mhz=900.5, power_w=10.25),
)
"""What most layouts below say."""

READ: dict[str, str | bytes] = {
    "milliseconds and milliwatts": """Model,Task,Batch Size,GPU Freq (MHz),Latency (ms),Power [mW]
net,Inference,1,900.5,20.25,9500
net,inference,4,900.5,60,10250
""",
    "microseconds, gigahertz, tabs": """network\ttask\tbs\tgpu_clock_ghz\ttime_us\tavg_power_mw
net\tinfer\t1\t0.9005\t20250\t9500
net\tinfer\t4\t0.9005\t60000\t10250
""",
    "German decimals": """workload;task;batch_size;gpu_mhz;latency_ms;power_w
net;infer;1;900,5;20,25;9,5
net;infer;4;900,5;60;10,25
""",
    "German decimals and thousands": """workload;task;batch_size;gpu_khz;latency_us;power_mw
net;infer;1;900.500;20.250,0;9.500
net;infer;4;900.500;60.000,0;10.250
""",
    "English thousands": """workload,task,batch_size,gpu_khz,latency_us,power_mw
net,infer,1,"900,500","20,250.0","9,500"
net,infer,4,"900,500","60,000.0","10,250"
""",
    "Excel": (
        '\ufeffsep=;\r\n"workload";"task";"batch_size";"gpu_mhz";"latency_ms";"power_w"\r\n'
        '"net";"infer";1;900,5;20,25;9,5\r\n"net";"infer";4;900,5;60,00;10,25\r\n;;;;;\r\n'
    ).encode(),
    "a quoted header with the delimiter in it": """"workload","task","batch, size","gpu_mhz","latency, ms","power_w"
net,infer,1,900.5,20.25,9.5
net,infer,4,900.5,60,10.25
""",
    "the task called mode": """model,mode,batch,gpu_mhz,latency_ms,power_w
net,inference,1,900.5,20.25,9.5
net,inference,4,900.5,60,10.25
""",
    "numbered rows, as pandas writes them": """,workload,task,batch_size,gpu_mhz,minibatch_s,power_w
0,net,infer,1,900.5,0.02025,9.5
1,net,infer,4,900.5,0.06,10.25
""",
}

REFUSED: dict[str, tuple[str, str, str]] = {
    "a comma that may be either": (
        'workload,task,batch_size,gpu_mhz,latency_us\nnet,infer,1,900,"20,250"\n',
        "t.csv: latency_us is 20,250: the comma may be a decimal one or one between thousands",
        "write 20.250 or 20250",
    ),
    "decimal commas and decimal points": (
        "workload;task;batch_size;gpu_mhz;latency_ms\nnet;infer;1;900.5;20,25\n",
        "t.csv has decimal commas (latency_ms is 20,25) and decimal points (gpu_mhz is 900.5)",
        "decimal point",
    ),
    "two columns for one": (
        "workload,task,batch_size,gpu_mhz,latency_ms,time_us\nnet,infer,1,900,20,20000\n",
        "t.csv: latency_ms and time_us could each be minibatch_s",
        "--column latency_ms=minibatch_s",
    ),
    "no names of columns": (
        "net,infer,1,900,20\nnet,infer,4,900,60\n",
        "t.csv has no columns workload, task, batch_size, minibatch_s and no knob column",
        "--column",
    ),
}


def _rows(data: bytes | str, columns: dict[str, str] | None = None) -> tuple[ProfileRow, ...]:
    return io.profile_of_bytes(data if isinstance(data, bytes) else data.encode(), columns, name="t.csv").rows


@pytest.mark.parametrize("layout", READ)
def test_a_layout_is_read(layout: str) -> None:
    columns = {"batch, size": "batch_size", "latency, ms": "minibatch_ms"} if "delimiter" in layout else None
    assert _rows(READ[layout], columns) == TWO


@pytest.mark.parametrize("layout", REFUSED)
def test_a_layout_is_refused(layout: str) -> None:
    text, message, hint = REFUSED[layout]
    with pytest.raises(InputError) as caught:
        _rows(text)
    assert caught.value.message.startswith(message)
    assert hint in caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint


def _parquet(columns: dict[str, Any]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def test_parquet_as_pandas_writes_it_is_read() -> None:
    data = _parquet(
        {
            "model": pa.array(["net", "net"]).dictionary_encode(),
            "task": pa.array(["infer", "infer"], pa.large_string()),
            "batch": pa.array([1, 4], pa.int32()),
            "gpu_mhz": pa.array([900.5, 900.5]),
            "latency_ms": pa.array([20.25, 60.0]),
            "power_mw": pa.array([9500, 10250], pa.int64()),
            "__index_level_0__": pa.array([3, 7]),
        }
    )
    profile = io.from_bytes(data, kind="profile", name="t.parquet")
    assert profile.rows == TWO
    (caution,) = profile.header.warnings
    assert (
        caution.advice == "read model as workload, batch as batch_size, latency_ms as minibatch_s, power_mw as power_w"
    )


NAMED = "workload,task,batch_size,{knob},minibatch_s,power_w\nnet,infer,1,{0},0.02,9\nnet,infer,1,{1},0.011,17\n"


@pytest.mark.parametrize("knob", ["mode", "Power Mode"])
def test_a_mode_by_name_is_a_knob(knob: str) -> None:
    rows = _rows(NAMED.format("15W", "MAXN", knob=knob))
    assert [str(row.mode) for row in rows] == ["mode 15W", "mode MAXN"]
    assert len(RecordedTable.of(rows, name="t").rows) == 2


@pytest.mark.parametrize(
    ("knob", "first", "second"), [("freq_ghz", "0.9", "1.3"), ("profile", "eco", "fast"), ("threads", "2", "4")]
)
def test_rows_that_only_an_unknown_setting_tells_apart_never_become_one(knob: str, first: str, second: str) -> None:
    text = NAMED.replace("{knob}", "{knob},gpu_mhz").replace("{0},", "{0},900,").replace("{1},", "{1},900,")
    text = text.format(first, second, knob=knob)
    with pytest.raises(InputError) as caught:
        _rows(text)
    assert f"rows 1 and 2: only {knob} tells them apart ({first} and {second})" in caught.value.message
    assert f"{knob}=" in caught.value.hint
    ours = {"freq_ghz": "cpu_mhz", "threads": "cpu_cores"}.get(knob, "power_mode")
    assert len({row.mode for row in _rows(text, {knob: ours})}) == 2
    assert len(_rows(text, {knob: "-"})) == 2


def test_repeats_and_figures_are_no_settings() -> None:
    text = (
        "workload,task,batch_size,gpu_mhz,minibatch_s,run,fps\n"
        "net,infer,1,900,0.02,1,50\nnet,infer,1,900,0.02,2,50\nnet,infer,4,900,0.06,1,66\n"
    )
    assert len(_rows(text)) == 3
    assert len(_rows(text.replace(",run,", ",note,").replace(",1,50", ",x,50.5").replace(",2,50", ",x,49.5"))) == 3


def test_a_column_is_what_people_say_it_is() -> None:
    text = "net_name,lat,f,pw,phase\nnet,20.25,900.5,9500,x\n"
    said = {
        "net_name": "workload", "lat": "minibatch_ms", "f": "gpu_mhz", "pw": "power_mw", "phase": "-",
        "task": "infer", "batch_size": "1",
    }  # fmt: skip
    profile = io.profile_of_bytes(text.encode(), said, name="t.csv")
    assert profile.rows == TWO[:1]
    assert profile.header.warnings == ()
    assert profile.header.inputs["table"]["columns"] == said


def test_the_unit_in_their_name_counts_where_ours_says_none() -> None:
    text = "workload,task,batch_size,clk_ghz,lat_ms\nnet,infer,1,0.9005,20.25\n"
    (row,) = _rows(text, {"clk_ghz": "gpu_mhz", "lat_ms": "minibatch_s"})
    assert (row.gpu_mhz, row.minibatch_s) == (900.5, 0.02025)


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        ({"latt": "minibatch_ms"}, "--column: t.csv has no column 'latt'", "did you mean lat?"),
        ({"lat": "minibatch"}, "--column: a profile has no column 'minibatch'", "minibatch"),
        ({"lat": "watts"}, "--column: a profile has no column 'watts'", "a profile has workload, task"),
    ],
)
def test_what_cannot_be_said_of_a_column_is_refused(said: dict[str, str], message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        _rows("workload,task,batch_size,gpu_mhz,lat\nnet,infer,1,900,20\n", said)
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_columns_of_edgetunes_own_files_are_not_renamed() -> None:
    profile = io.from_bytes(READ["the task called mode"].encode(), kind="profile", name="t")  # type: ignore[union-attr]
    with pytest.raises(InputError, match="was written by edgetune"):
        _rows(profile.to_bytes(), {"gpu_mhz": "cpu_mhz"})

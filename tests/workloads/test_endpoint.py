"""Language-model servers as workloads: references, figures and faults, against a server that streams."""

import contextlib
import gzip
import math
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from edgetune.artifacts.io import read_profile
from edgetune.cli.main import run
from edgetune.errors import InputError
from edgetune.stages.profiling import supervisor
from edgetune.stats import find_warmup
from edgetune.workloads import endpoint_client
from edgetune.workloads.endpoint import parse_endpoints
from edgetune.workloads.endpoint_client import Client, Route
from edgetune.workloads.endpoint_streams import Streams
from tests.fakes import openai_server
from tests.fakes.openai_server import TOKEN_S, answering, serving


def _client(url: str) -> Client:
    return Client(parse_endpoints(f"{url}#model=m&prompt=20&output=8")[0], 0)


@pytest.mark.parametrize(
    "reference",
    ["http://", "http://h:99999/v1#model=m", "http://h/v1", "http://u:p@h/v1#model=m", "http://h/v1#model=m&output=0",
     "http://h/v1#model=m&x=1", "http://h/v1?a#model=m", "http://h/v1#model=m&prompt=²"],
)  # fmt: skip
def test_bad_references_are_refused(reference: str) -> None:
    with pytest.raises(InputError):
        parse_endpoints(reference)


@pytest.mark.parametrize(
    ("how", "counted"), [("good", "server"), ("completions", "server"), ("uncounted", "estimated")]
)
def test_figures_of_an_answer(how: str, counted: str) -> None:
    with serving(how) as (url, prompts):
        client = _client(url)
        client.find_route()
        answer = client.ask()
    assert len({prompt.split()[0] for prompt in prompts}) == len(prompts) == 2
    assert (answer.output_tokens, answer.counted) == (8, counted)
    assert math.isnan(answer.own_ttft_s)


@pytest.mark.parametrize(
    ("how", "counts", "left_out", "path"),
    [("not done", (8, 8), (), "/chat/completions"), ("one more", (9, 9), (), "/chat/completions"),
     ("fewer", (4, 8), (), "/chat/completions"), ("strict", (8, 8), ("ignore_eos", "seed"), "/chat/completions"),
     ("no template", (8, 8), (), "/completions")],
)  # fmt: skip
def test_a_server_with_habits_of_its_own_is_measured_and_they_are_noted(
    how: str, counts: tuple[int, int], left_out: tuple[str, ...], path: str
) -> None:
    with serving(how) as (url, _), contextlib.closing(Streams([_client(url)])) as streams:
        route = streams._clients[0].find_route()
        streams.times_ns(3)
        answer, noted = streams._answers[0], streams.columns().get("reason", "")
    assert (answer.output_tokens, answer.chunks) == counts
    assert (route.left_out, route.path) == (left_out, path)
    words = {"not done": "", "one more": "9", "fewer": "4 tokens in 8 chunks", "strict": "refuses seed",
             "no template": "no chat template"}  # fmt: skip
    assert words[how] in noted
    assert bool(noted) == (how != "not done")


def test_the_key_is_taken_from_the_environment_and_told_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = tmp_path / "s.parquet"
    with serving("key") as (url, _):
        words = ["profile", url, "--model", "m", "--output-tokens", "4", "--device", "host", "--minibatches", "2"]
        monkeypatch.setenv("EDGETUNE_API_KEY", "secret")
        assert run([*words, "-o", str(out)]) == 0
        assert b"secret" not in out.read_bytes()
        monkeypatch.setenv("EDGETUNE_API_KEY", "wrong-key")
        with pytest.raises(InputError, match="answers 401") as refused:
            _client(url).find_route()
        assert "EDGETUNE_API_KEY" in refused.value.hint
        assert "wrong-key" not in refused.value.message
        monkeypatch.setenv("EDGETUNE_API_KEY", "two\nlines")
        with pytest.raises(InputError, match="line break") as refused:
            _client(url).find_route()
        assert "lines" not in refused.value.message.replace("line break", "")


def test_times_of_an_answer() -> None:
    endpoint = parse_endpoints("http://h/v1#model=m&output=8")[0]
    arrivals_s = [10.3, 10.35, 10.4, 10.5]
    events = [(arrival_s, {"choices": [{"delta": {"content": "w "}}]}) for arrival_s in arrivals_s]
    answer = endpoint_client._answer(endpoint, Route(), iter(events), 10.0)
    assert answer.ttft_s == pytest.approx(0.3)
    assert answer.token_s == pytest.approx(0.2 / 3)
    assert (answer.output_tokens, answer.bunched, answer.text) == (4, 0, "w w w w ")


def test_tokenizer_counts_what_the_server_does_not() -> None:
    with serving("tokenizer") as (url, prompts):
        client = _client(url)
        client.find_route()
        answer = client.ask()
    assert (answer.output_tokens, answer.prompt_tokens, answer.counted) == (
        16,
        2 * len(prompts[0].split()),
        "tokenizer",
    )


def test_closed_loop() -> None:
    with serving() as (url, prompts), contextlib.closing(Streams([_client(url) for _ in range(3)])) as streams:
        assert not prompts
        first, second = streams.times_ns(2), streams.times_ns(2)
        starts_ns, ends_ns = (one + other for one, other in zip(first, second, strict=True))
        assert starts_ns[1:] == ends_ns[:-1]
        assert min(end - start for start, end in zip(starts_ns, ends_ns, strict=True)) >= 8 * TOKEN_S * 0.5e9
        columns = streams.columns()
        times_s = [(end - start) / 1e9 for start, end in zip(starts_ns, ends_ns, strict=True)]
        counted_s = times_s[find_warmup(times_s).length :]
        assert columns["tokens_per_s"] == pytest.approx(8 * 3 * len(counted_s) / sum(counted_s))
        with streams._condition:
            assert streams._condition.wait_for(lambda: streams._paused == 3, 60.0)
        sent = len(prompts)
        time.sleep(20 * TOKEN_S)
        assert len(prompts) == sent
        resumed_ns = time.monotonic_ns()
        assert streams.times_ns(1)[0][0] >= resumed_ns
    assert columns["tokens_per_s"] < 3 / TOKEN_S
    assert columns["tokens_counted"] == "server"
    assert not any(thread.is_alive() for thread in streams._threads)


def test_open_loop_counts_the_wait_for_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_client, "BUNCHED_BELOW_S", 0.0)
    sent_s = [0.2, 0.21, *(100.0 + second for second in range(9))]
    with serving() as (url, prompts):
        streams = Streams([_client(url)], offsets_s=iter(sent_s))
        (start_ns, _), (first_ns, second_ns) = streams.times_ns(2)
        first, second = streams._answers
        streams.close()
    assert len(prompts) == 2
    assert first_ns - start_ns >= 0.2e9
    waited_s = (first_ns - start_ns) / 1e9
    assert first.ttft_s < waited_s - 0.2 + 1e-4
    assert second.ttft_s > waited_s - 0.21 - 1e-4
    assert not any(thread.is_alive() for thread in streams._threads)
    assert second_ns > first_ns


def test_closing_ends_a_request() -> None:
    with serving("stalls forever") as (url, _):
        streams = Streams([_client(url)])
        closing = threading.Timer(8 * TOKEN_S, streams.close)
        closing.start()
        with pytest.raises(InputError, match=r"cannot be used|ended the stream"):
            streams.times_ns(1)
        closing.join()
    assert not any(thread.is_alive() for thread in streams._threads)


@pytest.mark.parametrize(
    ("how", "words"),
    [("404", "404"), ("429", "429"), ("500", "500"), ("redirect", "redirects"), ("malformed", "malformed event"),
     ("cut off", "before its last event"), ("stalls", "sent nothing"), ("wrong counts", "counts 24 tokens")],
)  # fmt: skip
def test_faults_are_refused(how: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_client, "STALL_S", 0.3)
    with serving(how) as (url, _), pytest.raises(InputError, match=words):
        _client(url).ask()


_OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"
_WORD = b'data: {"choices": [{"text": "w"}]}\n\n'
_DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cannot be used: "),
        (b"220 mail.example ESMTP\r\n", "cannot be used: 220 mail"),
        (_OK + b"\r\n" + _WORD * 1000 + _DONE, "sent 65 chunks and goes on, asked for 8 tokens"),
        (_OK + b"\r\n" + b"data: " + b"w" * (2 << 20) + b"\n\n", "sends more than 8 tokens"),
        (_OK + b"\r\n" + (b": " + b"w" * 1000 + b"\n") * 1000 + _DONE, "sends more than 8 tokens"),
        (_OK + b"\r\n" + _WORD + b'data: {"choices": [{"text": "\xc3"}]}\n\n', "malformed event"),
        (_OK + b"\r\n" + _WORD + b'data: {"error": {"message": "out of memory"}}\n\n', "failed: .*out of memory"),
        (_OK + b"\r\n" + _WORD + b'data: {"usage": {"completion_tokens": 0}}\n\n' + _DONE, "counts 0 tokens"),
        (_OK + b"\r\n" + _WORD + b'data: {"usage": {"completion_tokens": 1e400}}\n\n' + _DONE, "counts inf tokens"),
        (_OK + b"\r\n" + b"data: " + b"[" * 100_000 + b"\n\n", "malformed event"),
        (_OK + b"\r\n" + _DONE, "sent no text"),
        (_OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(_WORD + _DONE), "malformed event"),
        (_CHUNKED + b"zz\r\n" + _WORD, "before its last event"),
        (_CHUNKED + b"%x\r\n" % len(_WORD) + _WORD + b"\r\n", "before its last event"),
        (_CHUNKED + b"f" * 40 + b"\r\n" + _WORD, "cannot be used"),
    ],
)
def test_bytes_that_are_no_stream_are_refused(data: bytes, words: str) -> None:
    with answering(data) as url, pytest.raises(InputError, match=words):
        _client(url).ask()


def _certificate(folder: Path) -> Path:
    """Make a certificate that nobody has signed, with its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    made = folder / "c.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -keyout k.pem -out c.pem"
    subprocess.run(words.split(), check=True, cwd=folder, capture_output=True)
    made.write_bytes(made.read_bytes() + (folder / "k.pem").read_bytes())
    return made


def test_a_certificate_that_does_not_verify(tmp_path: Path) -> None:
    with serving(certificate=_certificate(tmp_path)) as (url, _), pytest.raises(InputError, match="does not verify"):
        _client(url).ask()


def test_profile_of_a_server(tmp_path: Path) -> None:
    out = tmp_path / "s.parquet"
    with serving() as (url, _):
        words = ["profile", url, "--model", "m", "--prompt-tokens", "20", "--output-tokens", "8"]
        assert run([*words, "--batch-sizes", "1,3", "--device", "host", "--minibatches", "5", "-o", str(out)]) == 0
    rows = read_profile(str(out)).rows
    assert [(row.workload, row.batch_size, row.status) for row in rows] == [("m:p20:o8", size, "ok") for size in (1, 3)]
    for row in rows:
        counted_s = (row.times_s or ())[find_warmup(row.times_s or ()).length :]
        assert row.tokens_per_s == pytest.approx(8 * row.batch_size * len(counted_s) / sum(counted_s))
        assert (row.output_tokens, row.prompt_tokens, row.tokens_counted) == (8, 17, "server")
        assert (row.ttft_s or 0) <= (row.ttft_p95_s or 0) <= (row.ttft_p99_s or 0)
        assert (row.memory_peak_bytes or 0) > 1 << 20  # the server is this process


def test_profile_of_several_lengths_resumes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "s.parquet"
    with serving() as (url, prompts):
        words = ["profile", url, "--model", "m", "--prompt-tokens", "8,20", "--output-tokens", "2,4"]
        words += ["--device", "host", "--minibatches", "2", "-o", str(out)]
        assert run(words) == 0
        rows, sent = read_profile(str(out)).rows, len(prompts)
        assert [row.workload for row in rows] == ["m:p8:o2", "m:p8:o4", "m:p20:o2", "m:p20:o4"]
        assert [row.output_tokens for row in rows] == [2, 4, 2, 4]
        assert sorted({len(prompt.split()) for prompt in prompts}) == [5, 17]
        assert run([*words, "--batch-sizes", "1"]) == 0
        assert len(prompts) == sent
        assert run([*words, "--batch-sizes", "1,2"]) == 0
        assert len(read_profile(str(out)).rows) == 8
        capsys.readouterr()
        assert run([*words, "--prompt-tokens", "8,20,x"]) == 2
        assert "'x' is not a number of tokens" in capsys.readouterr().err


def test_prompts_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "chat.txt", tmp_path / "s.parquet"
    file.write_text("what is a watt?\n\nand a joule?\n")
    with serving() as (url, prompts):
        words = ["profile", url, "--model", "m", "--output-tokens", "2", "--prompts", str(file), "--device", "host"]
        assert run([*words, "--minibatches", "8", "--batch-sizes", "2", "-o", str(out)]) == 0
        assert {prompt.partition(" ")[2] for prompt in prompts} == {"what is a watt?", "and a joule?"}
        assert len({prompt.partition(" ")[0] for prompt in prompts}) == len(prompts)
        assert [row.workload for row in read_profile(str(out)).rows] == ["m:chat:o2"]
        file.write_text("another\n")
        capsys.readouterr()
        assert run([*words, "--batch-sizes", "2", "-o", str(out)]) == 2
        assert "holds another profile" in capsys.readouterr().err


def _left_running() -> str:
    """Return the servers of this test that still run."""
    for _ in range(50):
        found = subprocess.run(["pgrep", "-f", openai_server.__file__], capture_output=True, text=True, check=False)
        if not found.stdout:
            break
        time.sleep(0.1)
    return found.stdout


def _profile(out: Path, start: str, *words: str) -> int:
    command = ["profile", "http://127.0.0.1/v1", "--model", "m", "--output-tokens", "4", "--device", "host"]
    return run([*command, "--minibatches", "2", "--start", start, "-o", str(out), *words])


def _fake(how: str) -> str:
    return f"{shlex.quote(sys.executable)} {shlex.quote(openai_server.__file__)} {{port}} {how}"


@pytest.mark.parametrize("how", ["good", "models"])
def test_server_is_started_and_ended_for_each_point(how: str, tmp_path: Path) -> None:
    assert _profile(tmp_path / "s.parquet", _fake(how), "--batch-sizes", "1,2") == 0
    rows = read_profile(str(tmp_path / "s.parquet")).rows
    assert [(row.batch_size, row.status, row.output_tokens) for row in rows] == [(1, "ok", 4), (2, "ok", 4)]
    assert not _left_running()


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (_fake("ends"), "ended with exit code 1; its last output: no such model"),
        (_fake("dies"), "ended with exit code 3; its last output: out of memory"),
        ("no-such-program {port}", "there is no program 'no-such-program' to run"),
        ("sleep {prt}", "there is no placeholder {prt}"),
    ],
)
def test_faults(start: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _profile(tmp_path / "s.parquet", start) != 0
    assert says in capsys.readouterr().err
    assert not _left_running()


def test_server_that_does_not_become_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_START_SHARE", 0.02)
    assert _profile(tmp_path / "s.parquet", "sleep 60", "--point-timeout", "50s") != 0
    assert "sleep was not ready at http://127.0.0.1:80/v1 within 1 s" in capsys.readouterr().err

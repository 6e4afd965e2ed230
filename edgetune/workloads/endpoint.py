"""Language-model servers that speak the OpenAI protocol, as workloads: ``http://127.0.0.1:8080/v1#model=NAME``.

The fragment of the reference holds what is asked: ``model``, ``prompt`` and ``output``, numbers of tokens, of which
there may be several: ``prompt=64,256``; or ``prompts``, a file; and ``arrivals``, when requests are sent.
``endpoint_streams`` says what a minibatch is.

Connections to a language-model server, and its tokenizer, asked where its streams do not count tokens.

``POST /tokenize`` is a route of llama.cpp, vLLM and SGLang, ``/extras/tokenize`` of llama-cpp-python; each has another
name for the text. https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from edgetune.errors import InputError
from edgetune.limits import read_file
from edgetune.visible import visible
from edgetune.workloads.workload import Workload, WorkloadKind

if TYPE_CHECKING:
    from edgetune.serving.arrivals import ArrivalSpec

Lengths: TypeAlias = str | int | Sequence[int] | None
"""Numbers of tokens as written, ``64,256``, or from Python."""
PROMPT_TOKENS, OUTPUT_TOKENS = 128, 64
_MOST_TOKENS = 1_000_000
_MOST_BYTES = 16 << 20
_KNOWN = {"model", "prompt", "output", "prompts", "arrivals"}
_HINT = "e.g. edgetune profile http://127.0.0.1:8080/v1 --model NAME --prompt-tokens 128 --output-tokens 64"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server and the requests that it is sent.

    Args:
        secure: Whether the connection is encrypted.
        host: Name or address.
        port: TCP port.
        path: Path of the interface, e.g. ``/v1``.
        model: Name of the model at the server.
        prompt_tokens: Length asked for of each prompt.
        output_tokens: Length asked for of each answer.
        prompts: File of prompts, one in each line; empty to make them up.
        arrivals: An arrival process with a rate, see ``serving.arrivals``; empty if a request follows an answer.
    """

    secure: bool
    host: str
    port: int
    path: str
    model: str
    prompt_tokens: int = PROMPT_TOKENS
    output_tokens: int = OUTPUT_TOKENS
    prompts: str = ""
    arrivals: str = ""

    @property
    def url(self) -> str:
        """The address, for messages."""
        return f"{'https' if self.secure else 'http'}://{self.host}:{self.port}{self.path}"

    @property
    def name(self) -> str:
        """The name in the ``workload`` column."""
        prompt = Path(self.prompts).stem.replace(":", "-") or f"p{self.prompt_tokens}"
        arriving = self.arrivals and "@" + self.arrivals.replace(":", "-").replace(
            "/", "-per-"
        )  # the name is also that of a file
        return f"{self.model.rpartition('/')[2]}{arriving}:{prompt}:o{self.output_tokens}"


def parse_endpoints(reference: str) -> tuple[Endpoint, ...]:
    """Return the endpoints that a reference names: one for each pair of a length of prompts and one of answers.

    Raises:
        InputError: the address has no host, a user or a query; the model is missing; a length is no number above zero.
    """
    try:
        parts = urlsplit(reference)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise InputError(f"{reference} is not the address of a server", _HINT) from None
    bare = reference.partition("#")[0]
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or not bare.isprintable():
        raise InputError(f"{reference} is not the address of a server", _HINT)
    if parts.username or parts.password or " " in bare:
        raise InputError("the address of a server cannot hold a user, a password or a space", _HINT)
    asked = dict(parse_qsl(parts.fragment))
    if unknown := set(asked) - _KNOWN:
        raise InputError(f"{bare}: {min(unknown)!r} is not known after #", f"known: {', '.join(sorted(_KNOWN))}")
    if "prompt" in asked and "prompts" in asked:
        raise InputError("--prompts has prompts of their own lengths", "leave --prompt-tokens out")
    if not asked.get("model", "").rpartition("/")[2].isprintable() or not asked.get("model", "").strip("/ "):
        raise InputError(f"{bare}: the name of the model at the server is missing", _HINT)
    if arrivals := asked.get("arrivals", ""):
        arrivals_of(arrivals)
    path, secure = parts.path.rstrip("/"), parts.scheme == "https"
    lengths = product(_tokens(asked.get("prompt"), PROMPT_TOKENS), _tokens(asked.get("output"), OUTPUT_TOKENS))
    server = (secure, parts.hostname, port, path, asked["model"])
    return tuple(Endpoint(*server, *pair, asked.get("prompts", ""), arrivals) for pair in lengths)


def arrivals_of(words: str) -> ArrivalSpec:
    """Return the arrival process of requests.

    Raises:
        InputError: see ``parse_arrivals``, or the process has no rate.
    """
    from edgetune.serving.arrivals import parse_arrivals  # it needs numpy, which the command line loads late

    spec = parse_arrivals(words)
    if not spec.rates_per_s:
        raise InputError(
            f"the requests of {words} have no rate", "e.g. --arrivals poisson:0.5/s; --batch-sizes closes the loop"
        )
    return spec


def read_prompts(path: str) -> list[str]:
    """Return the lines of a file of prompts, without empty ones.

    Raises:
        InputError: the file cannot be read, is no text or too large, or has no line.
    """
    try:
        data = read_file(Path(path))
        lines = [line.strip() for line in data.decode().splitlines()]
    except OSError as error:
        raise InputError(f"cannot read {visible(path)}: {error.strerror or error}", "check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"{visible(path)} is not a text file in UTF-8", "write one prompt in each line") from None
    if len(data) > _MOST_BYTES or not any(lines):
        what = "is larger than 16 MiB" if len(data) > _MOST_BYTES else "has no prompt"
        raise InputError(f"{visible(path)} {what}", "write one prompt in each line")
    return [line for line in lines if line]


def endpoint_of(workload: Workload) -> Endpoint:
    """Return the endpoint of a workload; of one with several lengths that of its name.

    Raises:
        InputError: see ``parse_endpoints``.
    """
    return next(found for found in parse_endpoints(workload.reference) if found.name == workload.name)


def _tokens(words: str | None, default: int) -> tuple[int, ...]:
    """Return the numbers of tokens in ``64,256``, each once."""
    found = []
    for word in str(default if words is None else words).split(","):
        text = word.strip()
        if not (text.isascii() and text.isdigit() and len(text) < 8 and 1 <= int(text) <= _MOST_TOKENS):
            hint = f"whole numbers from 1 to {_MOST_TOKENS}, e.g. 64,256"
            raise InputError(f"{text[:40]!r} is not a number of tokens", hint)
        found.append(int(text))
    return tuple(dict.fromkeys(found))


def with_requests(
    reference: str,
    model: str | None,
    prompt: Lengths,
    output: Lengths,
    *,
    prompts: str | None = None,
    arrivals: str | None = None,
) -> str:
    """Return a reference to a server with the options of the command line in its fragment; any other as it is.

    Raises:
        InputError: the options are given for another kind of workload.
    """
    given = {"model": model, "prompt": prompt, "output": output, "arrivals": arrivals}
    asked = {
        name: str(value) if isinstance(value, str | int) else ",".join(map(str, value))
        for name, value in given.items()
        if value is not None
    }
    if prompts is not None:
        asked["prompts"] = str(Path(prompts).absolute())
    if not asked:
        return reference
    if not reference.startswith(KIND.prefixes):
        options = "--model, --prompt-tokens, --output-tokens, --prompts and --arrivals"
        message = f"{options} are for servers, and {reference} is none"
        raise InputError(message, "leave them out, or give the address of a server: http://127.0.0.1:8080/v1")
    bare, _, fragment = reference.partition("#")
    return f"{bare}#{urlencode({**dict(parse_qsl(fragment)), **asked})}"


def load(reference: str) -> Workload:
    """Return the workload of a server, which is not asked anything.

    Raises:
        InputError: see ``parse_endpoints``.
    """
    found = parse_endpoints(reference)
    texts = read_prompts(found[0].prompts) if found[0].prompts else []
    names = tuple(each.name for each in found)
    if len(found) == 1:
        return Workload(reference, names[0], "endpoint", None, _hash(found[0], texts))
    return Workload(reference, names[0].rsplit(":", 2)[0], "endpoint", None, _hash(found, texts), parts=names)


def _hash(asked: object, texts: Sequence[str]) -> str:
    return hashlib.sha256(repr((asked, texts)).encode()).hexdigest()


KIND = WorkloadKind(
    load,
    prefixes=("http://", "https://"),
    task="infer",
    runtime="edgetune.workloads.endpoint_streams",
    runs_code=True,
    per_mode=True,
)
"""A server runs; an estimate does not send it requests unasked."""


API_KEY = "EDGETUNE_API_KEY"
"""Variable of the environment with the API key of servers; it has a name of its own so that no other key is sent."""
_ROUTES = "/tokenize", "/extras/tokenize"
_ANSWERS_WITHIN_S = 10.0
_LONGEST_COUNT_BYTES, _BYTES_A_CHARACTER = 1 << 16, 16
"""Length of an answer with a token for each character; a longer one is cut, and so no answer."""
_BEFORE = "\n"
"""Text before the one to count: a tokenizer adds tokens at the beginning, and it joins a line break to nothing."""


def connect(endpoint: Endpoint, timeout_s: float) -> http.client.HTTPConnection:
    """Return a connection to an endpoint, which opens when it is used."""
    kind = http.client.HTTPSConnection if endpoint.secure else http.client.HTTPConnection
    return kind(endpoint.host, endpoint.port, timeout=timeout_s)


def request_headers() -> dict[str, str]:
    """Return the headers of a request with a body: with the API key of the environment, which no file holds.

    Raises:
        InputError: the key cannot be sent.
    """
    key = os.environ.get(API_KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise InputError(f"{API_KEY} holds a line break or another character that no key has", "set it again")
    return {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})


def without_key(text: str) -> str:
    """Return what a server says without the API key, which it may repeat."""
    key = os.environ.get(API_KEY, "")
    return text.replace(key, "...") if key else text


def count_tokens(endpoint: Endpoint, text: str) -> int | None:
    """Return the number of tokens of a text; ``None`` if the server has no route that tells."""
    for route in _ROUTES:
        whole, before = (_tokens_counted(endpoint, route, each) for each in (_BEFORE + text, _BEFORE))
        if whole is not None and before is not None and whole > before:
            return whole - before
    return None


def _tokens_counted(endpoint: Endpoint, route: str, text: str) -> int | None:
    connection = connect(endpoint, _ANSWERS_WITHIN_S)
    body = json.dumps({"model": endpoint.model, "content": text, "prompt": text, "input": text})
    try:
        path = endpoint.path.removesuffix("/v1") + route
        connection.request("POST", path, body, request_headers())
        with connection.getresponse() as response:
            found = response.read(_LONGEST_COUNT_BYTES + _BYTES_A_CHARACTER * len(text))
            return len(json.loads(found)["tokens"]) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError, TypeError, KeyError):
        return None
    finally:
        connection.close()

"""Language-model servers that speak the OpenAI protocol, as workloads: ``http://127.0.0.1:8080/v1#model=NAME``.

The fragment of the reference holds what is asked: ``model``, ``prompt`` and ``output``, numbers of tokens, of which
there may be several: ``prompt=64,256``.
``endpoint_streams`` says what a minibatch is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from edgetune.errors import InputError
from edgetune.workloads.workload import Workload, WorkloadKind

Lengths: TypeAlias = str | int | Sequence[int] | None
"""Numbers of tokens as written, ``64,256``, or from Python."""
PROMPT_TOKENS, OUTPUT_TOKENS = 128, 64
_MOST_TOKENS = 1_000_000
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
    """

    secure: bool
    host: str
    port: int
    path: str
    model: str
    prompt_tokens: int = PROMPT_TOKENS
    output_tokens: int = OUTPUT_TOKENS

    @property
    def url(self) -> str:
        """The address, for messages."""
        return f"{'https' if self.secure else 'http'}://{self.host}:{self.port}{self.path}"

    @property
    def name(self) -> str:
        """The name in the ``workload`` column."""
        return f"{self.model.rpartition('/')[2]}:p{self.prompt_tokens}:o{self.output_tokens}"


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
    if unknown := set(asked) - {"model", "prompt", "output"}:
        raise InputError(f"{bare}: {min(unknown)!r} is not known after #", "known: model, prompt, output")
    if not asked.get("model", "").rpartition("/")[2].isprintable() or not asked.get("model", "").strip("/ "):
        raise InputError(f"{bare}: the name of the model at the server is missing", _HINT)
    path, secure = parts.path.rstrip("/"), parts.scheme == "https"
    lengths = product(_tokens(asked.get("prompt"), PROMPT_TOKENS), _tokens(asked.get("output"), OUTPUT_TOKENS))
    return tuple(Endpoint(secure, parts.hostname, port, path, asked["model"], *pair) for pair in lengths)


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


def with_requests(reference: str, model: str | None, prompt: Lengths, output: Lengths) -> str:
    """Return a reference to a server with the options of the command line in its fragment; any other as it is.

    Raises:
        InputError: the options are given for another kind of workload.
    """
    given = {"model": model, "prompt": prompt, "output": output}
    asked = {name: _written(value) for name, value in given.items() if value is not None}
    if not asked:
        return reference
    if not reference.startswith(KIND.prefixes):
        message = f"--model, --prompt-tokens and --output-tokens are for servers, and {reference} is none"
        raise InputError(message, "leave them out, or give the address of a server: http://127.0.0.1:8080/v1")
    bare, _, fragment = reference.partition("#")
    return f"{bare}#{urlencode({**dict(parse_qsl(fragment)), **asked})}"


def _written(value: str | int | Sequence[int]) -> str:
    return str(value) if isinstance(value, str | int) else ",".join(map(str, value))


def load(reference: str) -> Workload:
    """Return the workload of a server, which is not asked anything.

    Raises:
        InputError: see ``parse_endpoints``.
    """
    found = parse_endpoints(reference)
    names = tuple(each.name for each in found)
    if len(found) == 1:
        return Workload(reference, names[0], "endpoint", None, hashlib.sha256(repr(found[0]).encode()).hexdigest())
    name, sha256 = found[0].name.rsplit(":", 2)[0], hashlib.sha256(repr(found).encode()).hexdigest()
    return Workload(reference, name, "endpoint", None, sha256, parts=names)


KIND = WorkloadKind(
    load,
    prefixes=("http://", "https://"),
    task="infer",
    runtime="edgetune.workloads.endpoint_streams",
    runs_code=True,
    per_mode=True,
)
"""A server runs; an estimate does not send it requests unasked."""

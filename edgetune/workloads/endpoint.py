"""Language-model servers that speak the OpenAI protocol, as workloads: ``http://127.0.0.1:8080/v1#model=NAME``.

The fragment of the reference holds what is asked: ``model``, ``prompt`` and ``output``, numbers of tokens.
``endpoint_streams`` says what a minibatch is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from edgetune.errors import InputError
from edgetune.workloads.workload import Workload, WorkloadKind

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


def parse_endpoint(reference: str) -> Endpoint:
    """Return the endpoint that a reference names.

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
    prompt, output = _tokens(asked.get("prompt"), PROMPT_TOKENS), _tokens(asked.get("output"), OUTPUT_TOKENS)
    path = parts.path.rstrip("/")
    return Endpoint(parts.scheme == "https", parts.hostname, port, path, asked["model"], prompt, output)


def _tokens(word: str | None, default: int) -> int:
    if word is None:
        return default
    if not (word.isascii() and word.isdigit() and len(word) < 8 and 1 <= int(word) <= _MOST_TOKENS):
        raise InputError(f"{word!r} is not a number of tokens", f"a whole number from 1 to {_MOST_TOKENS}")
    return int(word)


def with_requests(reference: str, model: str | None, prompt: int | None, output: int | None) -> str:
    """Return a reference to a server with the options of the command line in its fragment; any other as it is.

    Raises:
        InputError: the options are given for another kind of workload.
    """
    given = {"model": model, "prompt": prompt, "output": output}
    asked = {name: str(value) for name, value in given.items() if value is not None}
    if not asked:
        return reference
    if not reference.startswith(KIND.prefixes):
        message = f"--model, --prompt-tokens and --output-tokens are for servers, and {reference} is none"
        raise InputError(message, "leave them out, or give the address of a server: http://127.0.0.1:8080/v1")
    bare, _, fragment = reference.partition("#")
    return f"{bare}#{urlencode({**dict(parse_qsl(fragment)), **asked})}"


def load(reference: str) -> Workload:
    """Return the workload of a server, which is not asked anything.

    Raises:
        InputError: see ``parse_endpoint``.
    """
    found = parse_endpoint(reference)
    name = f"{found.model.rpartition('/')[2]}:p{found.prompt_tokens}:o{found.output_tokens}"
    sha256 = hashlib.sha256(repr(found).encode()).hexdigest()
    return Workload(reference, name, "endpoint", None, sha256)


KIND = WorkloadKind(
    load,
    prefixes=("http://", "https://"),
    task="infer",
    runtime="edgetune.workloads.endpoint_streams",
    runs_code=True,
    per_mode=True,
)
"""A server runs; an estimate does not send it requests unasked."""

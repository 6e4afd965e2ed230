"""Connections to a language-model server, and its tokenizer, asked where its streams do not count tokens.

``POST /tokenize`` is a route of llama.cpp, vLLM and SGLang, ``/extras/tokenize`` of llama-cpp-python; each has another
name for the text. https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

import http.client
import json
import os

from edgetune.errors import InputError
from edgetune.workloads.endpoint import Endpoint

API_KEY = "EDGETUNE_API_KEY"
"""Variable of the environment with the API key of servers; it has a name of its own so that no other key is sent."""
_ROUTES = "/tokenize", "/extras/tokenize"
_ANSWERS_WITHIN_S = 10.0
_MOST_BYTES, _BYTES_A_CHARACTER = 1 << 16, 16
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
        whole, before = (_tokens(endpoint, route, each) for each in (_BEFORE + text, _BEFORE))
        if whole is not None and before is not None and whole > before:
            return whole - before
    return None


def _tokens(endpoint: Endpoint, route: str, text: str) -> int | None:
    connection = connect(endpoint, _ANSWERS_WITHIN_S)
    body = json.dumps({"model": endpoint.model, "content": text, "prompt": text, "input": text})
    try:
        path = endpoint.path.removesuffix("/v1") + route
        connection.request("POST", path, body, request_headers())
        with connection.getresponse() as response:
            found = response.read(_MOST_BYTES + _BYTES_A_CHARACTER * len(text))
            return len(json.loads(found)["tokens"]) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError, TypeError, KeyError):
        return None
    finally:
        connection.close()

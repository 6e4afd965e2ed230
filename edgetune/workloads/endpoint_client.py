"""The client of a language-model server: sends a streamed request and times its answer.

The protocol is that of https://platform.openai.com/docs/api-reference/chat/streaming: events ``data: {...}`` end with
``data: [DONE]``, and ``stream_options.include_usage`` asks for the server's own count of tokens in the last one.
``ignore_eos`` is an extension of llama.cpp and vLLM. Times are of CLOCK_MONOTONIC, taken when a line has arrived.
"""

import contextlib
import http.client
import itertools
import json
import math
import random
import re
import secrets
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from edgetune.errors import InputError
from edgetune.visible import visible
from edgetune.workloads.endpoint import (
    API_KEY,
    Endpoint,
    connect,
    count_tokens,
    read_prompts,
    request_headers,
    without_key,
)

STALL_S = 60.0
"""A server that sends nothing for so long is given up."""
BUNCHED_BELOW_S = 1e-4
"""Chunks of one answer closer than this left the server together: no model writes 10,000 tokens a second."""
_LINE_BYTES = 1 << 20
_CHAT, _COMPLETIONS = "/chat/completions", "/completions"
_REFUSED = 400, 422
"""Answers to a request with a field that the server does not take, or to a chat with a model that has no template."""
_LEFT_OUT = {
    "ignore_eos": "answers may end before the length asked for",
    "seed": "answers may differ from run to run",
    "temperature": "answers are drawn as the server does by default",
    "stream_options": "the server counts no tokens",
}
"""Fields that a request does without, and what that means."""
_WORDS = [
    "time", "year", "day", "way", "man", "world", "life", "hand", "part", "place",
    "case", "week", "fact", "group", "number", "night", "water", "room", "point", "home",
]  # fmt: skip
_CHUNKS_A_TOKEN = 8
"""A server that ignores the length asked for may never end; bytes of a token may be sent one by one."""
_REFUSAL_BYTES = 1 << 14
_STREAM_BYTES, _BYTES_A_TOKEN = 1 << 18, 1 << 12
"""Longest stream: its beginning and end, and eight events of each token."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where requests go, and what a chunk counts if the server does not count tokens.

    Args:
        path: Path below that of the endpoint.
        left_out: Fields that the server refused.
        notes: What differs for that from the requests that were asked for.
        chunk_tokens: Tokens of a chunk by the server's tokenizer; ``None`` if it is unknown.
        prompt_tokens: Tokens of a prompt by the server's tokenizer; NaN if they are unknown or differ.
    """

    path: str = _CHAT
    chunk_tokens: float | None = None
    prompt_tokens: float = math.nan
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer.

    Args:
        ttft_s: Time to the first token, s; NaN if the answer came in bunches.
        token_s: Time of each token after the first, s; NaN for bunches or for one token.
        prompt_tokens: Length of the prompt; NaN if the server does not count.
        output_tokens: Length of the answer.
        counted: Who counted: ``server``, ``tokenizer`` for the tokens of a chunk by the server's tokenizer, or
            ``estimated`` if each chunk counts as a token.
        bunched: 1 if most chunks arrived together.
        own_ttft_s, own_token_s: The server's own times of the prompt and of a token, s; NaN if it sends none.
        end_ns: When the last event had arrived, CLOCK_MONOTONIC, ns.
        chunks: Events with text.
        text: What it says.
    """

    ttft_s: float
    token_s: float
    prompt_tokens: float
    output_tokens: float
    counted: str
    bunched: float
    own_ttft_s: float
    own_token_s: float
    end_ns: int
    chunks: int = 0
    text: str = ""


class Client:
    """Sends one request at a time.

    Args:
        endpoint: The server and the lengths.
        seed: Seed of the prompts, which differ in their first word so that no cache of prompts answers.
        route: What ``find_route`` found.
    """

    def __init__(self, endpoint: Endpoint, seed: int, route: Route = Route()) -> None:
        self._endpoint = endpoint
        self._seed = seed
        self._prompts = read_prompts(endpoint.prompts) if endpoint.prompts else []
        self._random = random.Random(seed)
        self._socket: socket.socket | None = None
        self.route = route

    @property
    def output_tokens(self) -> int:
        """Tokens asked for of each answer."""
        return self._endpoint.output_tokens

    def find_route(self) -> Route:
        """Send a request to find out whether the server chats or only completes, and who counts tokens.

        Raises:
            InputError: see ``ask``.
        """
        while True:
            try:
                answer = self.ask()
                break
            except _RefusedError as error:
                self.route = _another(self.route, error)
        tokens = None if answer.counted == "server" else count_tokens(self._endpoint, answer.text)
        if tokens is not None:  # the server's tokenizer counts
            prompt = None if self._prompts else count_tokens(self._endpoint, self._prompt())
            prompt_tokens = math.nan if prompt is None else float(prompt)
            self.route = replace(self.route, chunk_tokens=tokens / answer.output_tokens, prompt_tokens=prompt_tokens)
        return self.route

    def ask(self, begun_s: float | None = None) -> Answer:
        """Send a request and wait for the whole answer.

        Args:
            begun_s: When it arrived, if it had to wait, CLOCK_MONOTONIC, s.

        Raises:
            InputError: the server cannot be reached, or does not answer as the protocol says.
        """
        endpoint, prompt = self._endpoint, self._prompt()
        body: dict[str, Any] = {
            "model": endpoint.model, "max_tokens": endpoint.output_tokens, "temperature": 0, "seed": self._seed,
            "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True},
        }  # fmt: skip
        chat = self.route.path == _CHAT
        body = {name: value for name, value in body.items() if name not in self.route.left_out}
        body |= {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        connection = connect(endpoint, STALL_S)
        try:
            begun_s = time.monotonic() if begun_s is None else begun_s
            headers = {**request_headers(), "Accept": "text/event-stream"}
            connection.request("POST", endpoint.path + self.route.path, json.dumps(body), headers)
            self._socket = connection.sock
            with connection.getresponse() as response:
                _check_status(endpoint, response)
                return _answer(endpoint, self.route, _events(endpoint, response), begun_s)
        except TimeoutError:
            raise InputError(f"{endpoint.url} sent nothing for {STALL_S:.0f} s", "look at the server's log") from None
        except ssl.SSLCertVerificationError as error:
            raise InputError(
                f"{endpoint.url}: the certificate does not verify: {error.verify_message}",
                "add its authority to the system's, or use http:// on a trusted network",
            ) from None
        except http.client.IncompleteRead:
            raise _cut_off(endpoint) from None
        except (OSError, http.client.HTTPException, ValueError, OverflowError) as error:
            why = visible(str(getattr(error, "strerror", None) or error or type(error).__name__))[:200]
            message = f"{endpoint.url} cannot be used: {why}"
            raise InputError(message, "start the server, or correct the address") from None
        finally:
            self._socket = None
            connection.close()

    def cut(self) -> None:
        """End the request that another thread waits for, if there is one."""
        waiting = self._socket
        if waiting is not None:
            with contextlib.suppress(OSError):
                waiting.shutdown(socket.SHUT_RDWR)

    def _prompt(self) -> str:
        if self._prompts:
            return f"{secrets.token_hex(4)} {self._random.choice(self._prompts)}"
        words = random.Random(self._seed).choices(_WORDS, k=max(0, self._endpoint.prompt_tokens - 4))
        return " ".join([secrets.token_hex(4), *words])


class _RefusedError(InputError):
    """The server does not have the route, or refuses the request, and says this."""

    def __init__(self, message: str, hint: str, status: int, said: str) -> None:
        super().__init__(message, hint)
        self.status, self.said = status, said


def _another(route: Route, error: _RefusedError) -> Route:
    """Return what to try next after a refusal.

    Raises:
        InputError: the error, where nothing is left to try.
    """
    chats, said = route.path == _CHAT, error.said.lower()
    if chats and error.status == 404:
        return replace(route, path=_COMPLETIONS)
    if chats and "chat template" in said:
        return replace(route, path=_COMPLETIONS, notes=(*route.notes, "the model has no chat template: completions"))
    if error.status in _REFUSED:
        for name, means in _LEFT_OUT.items():
            if name not in route.left_out and re.search(rf"\b{name}\b", said):
                note = f"the server refuses {name}, which is left out: {means}"
                return replace(route, left_out=(*route.left_out, name), notes=(*route.notes, note))
    raise error


def _check_status(endpoint: Endpoint, response: http.client.HTTPResponse) -> None:
    if response.status == 200:
        return
    if 300 <= response.status < 400:
        message = f"{endpoint.url} redirects to {visible(response.headers.get('Location') or 'nowhere')[:100]}"
        raise InputError(message, "redirects are not followed: give the address of the server itself")
    said = without_key(visible(response.read(_REFUSAL_BYTES).decode(errors="replace")).strip())
    message = f"{endpoint.url} answers {response.status} {visible(response.reason)}" + (
        f": {said[:300]}" if said else ""
    )
    if response.status in (401, 403):
        raise InputError(message, f"give its key in the environment: {API_KEY}=... edgetune profile ...")
    hint = "ask for fewer requests at once: --batch-sizes 1" if response.status == 429 else "look at the server's log"
    if response.status == 404:
        hint = "check the address, which often ends with /v1, and the name of the model"
    raise _RefusedError(message, hint, response.status, said)


def _events(endpoint: Endpoint, response: http.client.HTTPResponse) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Yield the arrival, s, and the content of each event up to the last.

    Raises:
        InputError: the stream ends before the answer or is too long, or an event is not JSON.
    """
    finished = False
    left_bytes = _STREAM_BYTES + _BYTES_A_TOKEN * endpoint.output_tokens
    while line := response.readline(_LINE_BYTES):
        now_s = time.monotonic()
        if (left_bytes := left_bytes - len(line)) < 0:
            message = f"{endpoint.url} sends more than {endpoint.output_tokens} tokens, as many as asked for, can take"
            raise InputError(message, "look at the server's log, and at what it sends: curl -N")
        if not line.startswith(b"data:"):
            if line.strip() and line[:1] not in b":" and not line.startswith((b"event:", b"id:", b"retry:")):
                raise _malformed(endpoint, line)
            continue
        data = line[5:].strip()
        if data == b"[DONE]":
            return
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            raise _malformed(endpoint, data) from None
        if not isinstance(event, dict):
            raise _malformed(endpoint, data)
        if event.get("error") is not None:
            said = without_key(visible(str(event["error"])))[:200]
            raise InputError(f"{endpoint.url} failed: {said}", "look at the server's log")
        finished = finished or isinstance(_choice(event).get("finish_reason"), str)
        yield now_s, event
    if not finished:  # a server that says why the answer ends may leave [DONE] out
        raise _cut_off(endpoint)


def _answer(
    endpoint: Endpoint, route: Route, events: Iterator[tuple[float, Mapping[str, Any]]], begun_s: float
) -> Answer:
    arrivals: list[float] = []
    said: list[str] = []
    usage: Mapping[str, Any] = {}
    timings: Mapping[str, Any] = {}
    for now_s, event in events:
        if text := _text(event):
            arrivals.append(now_s)
            said.append(text)
        if len(arrivals) > _CHUNKS_A_TOKEN * endpoint.output_tokens:
            message = (
                f"{endpoint.url} sent {len(arrivals)} chunks and goes on, asked for {endpoint.output_tokens} tokens"
            )
            raise InputError(message, "the server does not keep max_tokens: update the server")
        if isinstance(event.get("usage"), dict):
            usage = event["usage"]
        if isinstance(event.get("timings"), dict):
            timings = event["timings"]
    end_ns = time.monotonic_ns()
    if not arrivals:
        raise InputError(f"{endpoint.url} sent no text", "check that the server streams chat or text completions")
    output, chunks = usage.get("completion_tokens"), len(arrivals)
    most = max(endpoint.output_tokens, chunks) + 1  # some count the end of the text, or send one more
    if output is not None and (type(output) is not int or not 1 <= output <= most):
        message = (
            f"{endpoint.url} counts {visible(str(output))[:50]} tokens in {chunks} chunks, "
            f"asked for {endpoint.output_tokens} at most"
        )
        raise InputError(message, "the server's usage is wrong: update the server")
    counted = "server" if output is not None else "estimated" if route.chunk_tokens is None else "tokenizer"
    tokens = chunks * (route.chunk_tokens or 1.0) if output is None else float(output)
    gaps = [later - sooner for sooner, later in itertools.pairwise(arrivals)]
    bunched = (chunks == 1 and tokens > 1) or sum(gap < BUNCHED_BELOW_S for gap in gaps) > len(gaps) / 2
    prompt = usage.get("prompt_tokens")
    told = float(prompt) if type(prompt) is int and 0 <= prompt < 1 << 40 else route.prompt_tokens
    token_s = math.nan if bunched or tokens < 2 else (arrivals[-1] - arrivals[0]) / (tokens - 1)
    ttft_s = math.nan if bunched else arrivals[0] - begun_s
    own_ttft_s, own_token_s = (_positive(timings.get(name)) / 1e3 for name in _OWN_MS)
    return Answer(
        ttft_s, token_s, told, tokens, counted, float(bunched), own_ttft_s, own_token_s, end_ns, chunks, "".join(said)
    )


def _text(event: Mapping[str, Any]) -> str:
    """Return the text of an event; empty for other events, such as that of the role."""
    choice = _choice(event)
    delta = choice.get("delta")
    said: Mapping[str, Any] = delta if isinstance(delta, dict) else choice
    texts = (said.get(name) for name in ("text", "content", "reasoning_content", "reasoning"))
    return next((text for text in texts if text and isinstance(text, str)), "")


def _choice(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the one answer of an event; empty for events without any."""
    choices = event.get("choices")
    return choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}


_OWN_MS = "prompt_ms", "predicted_per_token_ms"
"""Names of the time of the prompt and of a token that llama.cpp sends, ms.
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"""


def _positive(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e12 else math.nan


def _malformed(endpoint: Endpoint, line: bytes) -> InputError:
    said = without_key(visible(line.decode(errors="replace")))[:80]
    return InputError(f"{endpoint.url} sent a malformed event: {said}", "check that it speaks the OpenAI protocol")


def _cut_off(endpoint: Endpoint) -> InputError:
    return InputError(f"{endpoint.url} ended the stream before its last event", "look at the server's log")

"""A server that streams answers as language-model servers do, and misbehaves as they do.

``python openai_server.py PORT HOW`` serves until it is ended.
"""

import contextlib
import json
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOKEN_S = 0.004


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    how = "good"
    prompts: list[str]
    state: dict[str, int]
    lock = threading.Lock()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._end(404 if self.path == "/health" and self.how == "models" else 200)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if refusal := self._refusal(asked):
            self._end(*refusal)
            return
        if self.path.endswith("/tokenize"):
            self._tokenize(asked["content"])
            return
        with self.lock:
            self.state["now"] += 1
        if self.how == "few at once" and self.state["now"] > 3:
            self._end(429)
        elif self.how in ("404", "429", "500") or (self.how == "completions" and "messages" in asked):
            self._end(404 if self.how == "completions" else int(self.how))
        elif self.how == "redirect":
            self._end(307, Location="http://198.51.100.1/v1/chat/completions")
        else:
            if self.how == "dies" and len(self.prompts) > 1:
                print("out of memory", flush=True)
                os._exit(3)
            self.prompts.append(asked.get("prompt") or asked["messages"][0]["content"])
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._stream(asked)
        with self.lock:
            self.state["now"] -= 1

    def _refusal(self, asked: dict[str, object]) -> tuple[int, bytes] | None:
        given = self.headers.get("Authorization", "")
        if self.how == "key" and given != "Bearer secret":
            return 401, f"Invalid API key: {given}".encode()
        if self.how == "strict" and (extra := next((name for name in ("ignore_eos", "seed") if name in asked), None)):
            return 422, f"{extra}: Extra inputs are not permitted".encode()
        if self.how == "no template" and "messages" in asked:
            return 400, b"default chat template is no longer allowed"
        return None

    def _end(self, status: int, body: bytes = b"busy", **headers: str) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _tokenize(self, text: str) -> None:
        if self.how != "tokenizer":
            self._end(*((200, b'{"tokens": [' + b"1," * (1 << 20) + b"1]}") if self.how == "long tokens" else (404,)))
            return
        body = json.dumps({"tokens": [1] * (1 + text.count("\n") + 2 * len(text.split()))}).encode()
        self._end(200, body)

    def _stream(self, asked: dict[str, object]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        count = int(str(asked["max_tokens"])) + (self.how == "one more")
        events: list[dict[str, Any]] = [
            {"choices": [{"delta": {"content": f"w{index} "}, "text": f"w{index} "}]} for index in range(count)
        ]
        if self.how == "not done":
            events[-1]["choices"][0]["finish_reason"] = "length"
        lines = [f"data: {json.dumps(event)}\n\n".encode() for event in events]
        if self.how == "bunched":
            lines = [b"".join(lines)]
        for index, line in enumerate(lines):
            time.sleep(TOKEN_S)
            self.wfile.write(line)
            self.wfile.flush()
            if index == count // 2 and self.how.startswith("stalls"):
                time.sleep(30.0 if self.how == "stalls forever" else 1.0)
            if index == count // 2 and self.how in ("cut off", "malformed"):
                self.wfile.write(b"data: {broken\n\n" if self.how == "malformed" else b"")
                return
        timings = {"prompt_n": 17, "prompt_ms": 12.3, "predicted_n": count, "predicted_per_token_ms": 4.0}
        told = {"wrong counts": 3 * count, "fewer": count // 2}.get(self.how, count)
        usage = {"prompt_tokens": 17, "completion_tokens": told}
        extra = {"timings": timings} if self.how == "timings" else {}
        if self.how not in ("uncounted", "tokenizer", "long tokens"):
            self.wfile.write(f"data: {json.dumps({'choices': [], 'usage': usage} | extra)}\n\n".encode())
        if self.how != "not done":
            self.wfile.write(b"data: [DONE]\n\n")


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


@contextlib.contextmanager
def serving(how: str = "good", certificate: Path | None = None, port: int = 0) -> Iterator[tuple[str, list[str]]]:
    prompts: list[str] = []
    handler = type("Handler", (_Handler,), {"how": how, "prompts": prompts, "state": {"now": 0}})
    server = _Server(("127.0.0.1", port), handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)  # looks for its end every 20 ms
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}/v1", prompts
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def answering(data: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                request = b""
                while not request.endswith(b"}"):
                    request += connection.recv(65536)
                connection.sendall(data)

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        thread.join()


if __name__ == "__main__":
    if sys.argv[2] == "ends":
        sys.exit("no such model")
    with serving(sys.argv[2], port=int(sys.argv[1])):
        threading.Event().wait(60.0)

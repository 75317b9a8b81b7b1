"""The page of suspects, served to this machine only.

Whoever asks must know the random token in the address, and name this server as the host, so that neither other users
nor pages of other sites can read pictures or decide. Only pictures of the audit are served, by number: no path comes
from a request.
"""

import json
import logging
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, NamedTuple, final

from eigen_reptile.data.io.archives import UnreadableFileError
from eigen_reptile.errors import ConfigError, RunError
from eigen_reptile.practice.audit.decisions import VERDICTS
from eigen_reptile.practice.audit.review import Review
from eigen_reptile.runtime.strict_json import parse_json

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
MOST_BODY = 4096
"""Bytes of a request; a decision has less than 100."""
SECONDS = 30
"""Time that a request may take to arrive."""
TOKEN_BYTES = 16


class Request(NamedTuple):
    """What the server looks at."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


class Response(NamedTuple):
    """What is sent back."""

    status: HTTPStatus
    kind: str = "text/plain; charset=utf-8"
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = (("Cache-Control", "no-store"),)


@final
@dataclass(frozen=True)
class Site:
    """Answers requests about one review."""

    review: Review
    token: str
    port: int
    _decoding: threading.Lock = field(default_factory=threading.Lock)
    """One picture at a time, because a large one takes hundreds of megabytes."""

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/{self.token}/"

    def respond(self, request: Request) -> Response:
        own_hosts = {f"{name}:{self.port}" for name in (HOST, "localhost")}
        if request.headers.get("Host") not in own_hosts:
            return _refused(HTTPStatus.MISDIRECTED_REQUEST)
        origin = request.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in own_hosts}:
            return _refused(HTTPStatus.FORBIDDEN)
        match request.method, self._after_token(request.path):
            case "GET", [""]:
                return _page()
            case "GET", ["state"]:
                return _json(self.review.state())
            case "GET", ["picture", number]:
                return self._picture(number)
            case "POST", ["decide"]:
                return self._decide(request)
        return _refused(HTTPStatus.NOT_FOUND)

    def _after_token(self, path: str) -> list[str] | None:
        """The parts of a path below the token; None if the token is wrong."""
        prefix = f"/{self.token}/"
        if not secrets.compare_digest(path[: len(prefix)].encode(), prefix.encode()):
            return None
        return path[len(prefix) :].split("/")

    def _picture(self, number: str) -> Response:
        if not (number.isascii() and number.isdecimal() and len(number) < 10):
            return _refused(HTTPStatus.NOT_FOUND)
        if int(number) not in self.review.pictures:
            return _refused(HTTPStatus.NOT_FOUND)
        try:
            with self._decoding:
                picture = self.review.thumbnail(int(number))
        except (UnreadableFileError, RunError):
            return _refused(HTTPStatus.NOT_FOUND)
        return Response(HTTPStatus.OK, "image/jpeg", picture, (("Cache-Control", "private, max-age=3600"),))

    def _decide(self, request: Request) -> Response:
        if request.headers.get("Content-Type") != "application/json":
            return _refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        try:
            asked = parse_json(request.body)
        except ValueError:
            return _refused(HTTPStatus.BAD_REQUEST)
        match asked:
            case {"suspect": int(position), "verdict": verdict, **rest} if not rest and not isinstance(position, bool):
                if verdict in (*VERDICTS, None) and 0 <= position < len(self.review.suspects):
                    try:
                        self.review.decisions.decide(position, verdict)
                    except RunError as error:  # the disk is full, or the folder is gone
                        return _json({"error": str(error)}, HTTPStatus.INTERNAL_SERVER_ERROR)
                    return _json({"suspect": position, "verdict": verdict})
        return _refused(HTTPStatus.BAD_REQUEST)


def _refused(status: HTTPStatus) -> Response:
    return Response(status, body=f"{status.value} {status.phrase}\n".encode())


def _json(value: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(status, "application/json", json.dumps(value, allow_nan=False).encode())


def _page() -> Response:
    """The page, whose only script and style are those that carry the nonce of this answer."""
    nonce = secrets.token_urlsafe(TOKEN_BYTES)
    page = files(__package__).joinpath("page.html").read_text(encoding="utf-8").replace("NONCE", nonce)
    policy = (
        f"default-src 'none'; img-src 'self' data:; connect-src 'self'; script-src 'nonce-{nonce}'; "
        f"style-src 'nonce-{nonce}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = (("Cache-Control", "no-store"), ("Content-Security-Policy", policy))
    return Response(HTTPStatus.OK, "text/html; charset=utf-8", page.encode(), headers)


@final
class _Handler(BaseHTTPRequestHandler):
    """Reads a request of bounded size, and writes what the site responds."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "eigen-reptile", ""
    timeout = SECONDS
    server: "_Server"

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()) or "Transfer-Encoding" in self.headers:
            self._send(_refused(HTTPStatus.LENGTH_REQUIRED), last=True)
        elif len(length) > 9 or int(length) > MOST_BODY:
            self._send(_refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE), last=True)
        else:
            self._answer(self.rfile.read(int(length)))

    def _answer(self, body: bytes) -> None:
        request = Request(self.command, self.path, {name.title(): value for name, value in self.headers.items()}, body)
        self._send(self.server.site.respond(request), last="Content-Length" in self.headers and not body)

    def _send(self, response: Response, last: bool) -> None:
        """Send a response; after the last one the connection is closed, because there is a body that was not read."""
        self.close_connection |= last
        self.send_response(response.status)
        self.send_header("Content-Type", response.kind)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        for name, value in response.headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(response.body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


@final
class _Server(ThreadingHTTPServer):
    daemon_threads = True
    site: Site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Browsers close connections when they like."""
        log.debug("a request failed", exc_info=True)


@contextmanager
def serving(review: Review, port: int = 0) -> Iterator[Site]:
    """Serve the page in threads of its own, on this port or on any that is free."""
    if not 0 <= port < 1 << 16:
        raise ConfigError(f"`port` must be from 0 to 65535, not {port}")
    try:
        server = _Server((HOST, port), _Handler)
    except OSError as error:
        raise ConfigError(f"cannot use `port` {port}: {error.strerror}; choose another") from error
    server.site = Site(review, secrets.token_urlsafe(TOKEN_BYTES), server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, name="page", daemon=True)
    thread.start()
    try:
        yield server.site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

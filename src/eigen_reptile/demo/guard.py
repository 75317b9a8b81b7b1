"""Who may ask, and how much: every request passes here before anything else looks at it.

A page of another site must neither read nor compute here, by a request of its own or by giving this address a name of
its own (DNS rebinding). Other people on the network need the token that is part of the address.
"""

import asyncio
import ipaddress
import secrets
from dataclasses import dataclass
from typing import final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from eigen_reptile.demo.protocol import MOST_BODY

SECONDS = 30
"""Time that the next part of a request may take to arrive."""
LOCAL = frozenset({"127.0.0.1", "localhost", "::1"})
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class TooLargeError(Exception):
    """A body has more bytes than it may have."""


@final
@dataclass(frozen=True)
class Access:
    """Where the page is served, and to whom."""

    host: str
    port: int
    token: str | None
    """None if only this machine can connect."""

    @property
    def address(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{name}:{self.port}/" + (f"{self.token}/" if self.token else "")

    def is_own(self, host: str) -> bool:
        """Whether a `Host` is this server under a name that nobody else can point here."""
        name, _, port = host.rpartition(":")
        name = name.strip("[]")
        if port != str(self.port):
            return False
        return name in LOCAL or (self.token is not None and (name == self.host or _is_address(name)))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@final
class Guard:
    """The outermost part of the application."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, _with_headers(send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        inside = self._inside(scope["path"])
        if (status := self._refusal(scope["method"], headers)) is not None:
            await PlainTextResponse(f"{status}\n", status)(scope, receive, send)
        elif inside is None:
            await PlainTextResponse("404\n", 404)(scope, receive, send)
        else:
            await self._app({**scope, "path": inside}, _bounded(receive), send)

    def _inside(self, path: str) -> str | None:
        """The path below the token; None if the token is wrong."""
        if self._access.token is None:
            return path
        prefix = f"/{self._access.token}"
        if not secrets.compare_digest(path[: len(prefix) + 1].encode(), f"{prefix}/".encode()):
            return None
        return path[len(prefix) :]

    def _refusal(self, method: str, headers: Headers) -> int | None:
        """The status with which a request is refused; None if it is not."""
        if not self._access.is_own(headers.get("host", "")):
            return 421
        origin = headers.get("origin")
        if origin is not None and not (origin.startswith("http://") and self._access.is_own(origin[7:])):
            return 403
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return 403
        if method == "POST":
            if headers.get("content-type") != "application/json":
                return 415
            length = headers.get("content-length", "0")
            if not length.isdecimal() or len(length) > 9 or int(length) > MOST_BODY:
                return 413
        return None


def _bounded(receive: Receive) -> Receive:
    """The same body, in time and up to a bound: it may come without a length."""
    read = 0

    async def bounded() -> Message:
        nonlocal read
        async with asyncio.timeout(SECONDS if read >= 0 else None):
            message = await receive()
        if message["type"] == "http.request":
            read += len(message.get("body", b""))
            if read > MOST_BODY:
                raise TooLargeError
            if not message.get("more_body", False):
                read = -1  # what is received from now on is that the client has gone
        return message

    return bounded


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(HEADERS)
        await send(message)

    return with_headers

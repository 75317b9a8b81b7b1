"""Serve the page until Ctrl-C."""

import resource
import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from eigen_reptile.demo.app import make_app
from eigen_reptile.demo.guard import LOCAL, Access, Guard
from eigen_reptile.errors import ConfigError

TOKEN_BYTES = 16
FILES = 4096
"""Open files to ask for: each connection is one."""
BACKLOG = 1024


def serve(host: str, port: int, runs: Path | None, announce: Callable[[str], None]) -> None:
    """Serve until a signal stops it. `announce` is called with the address when it can be visited."""
    if not 0 <= port < 1 << 16:
        raise ConfigError(f"`port` must be from 0 to 65535, not {port}")
    if runs is not None and not runs.is_dir():
        raise ConfigError(f"`runs` must be a folder of run folders, and {runs} is none")
    with _bound(host, port) as listener:
        token = None if host in LOCAL else secrets.token_urlsafe(TOKEN_BYTES)
        access = Access(host, listener.getsockname()[1], token)
        _allow_connections()
        config = uvicorn.Config(
            Guard(make_app(runs), access),
            log_level="error",
            access_log=False,
            server_header=False,
            ws="none",
            backlog=BACKLOG,
            timeout_graceful_shutdown=1,
        )
        announce(access.address)  # the socket listens already: whoever comes early waits a moment
        uvicorn.Server(config).run(sockets=[listener])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise ConfigError(f"cannot use `host` {host} and `port` {port}: {error.strerror}; choose others") from error
    return listener


def _allow_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

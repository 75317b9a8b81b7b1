"""The `demo` command: what it refuses before it serves anything."""

import socket
from pathlib import Path

from command_line import Cli


def test_what_cannot_be_served_is_refused(cli: Cli) -> None:
    Path("file").touch()
    for option, value in (("--port", "70000"), ("--port", "-1"), ("--runs", "nowhere"), ("--runs", "file")):
        done = cli("demo", "--no-browser", option, value)
        assert done.code == 2
        assert f"{option} must be" in done.err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = cli("demo", "--no-browser", "--port", str(taken.getsockname()[1]))
    assert done.code == 2
    assert "choose others" in done.err

"""What anybody may send to the page's server: it is refused or queued, and the server goes on."""

import base64
import json
import socket
import threading
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

from demo_server import Served, start, stop
from hand_drawings import lesson, queries

MANY = 1000


def ask(served: Served, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
    """A request with these headers; POST if there is a body, which is sent as JSON unless it is bytes."""
    connection = HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is None:
            connection.request("GET", path, headers=names)
        else:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", path, data, {"Content-Type": "application/json", **names})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def still_answers(served: Served) -> bool:
    body = {"lesson": lesson(), "methods": ["trust"], "steps": 50, "drawings": queries(1)}
    status, answer = ask(served, "/api/ask", body)
    rows = json.loads(answer)["methods"]["trust"]
    return status == 200 and [row.index(max(row)) for row in rows] == [0, 1]


def memory(served: Served) -> float:
    """Of the server's own process, in megabytes."""
    pages = int(Path(f"/proc/{served.process.pid}/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def features(*values: float) -> str:
    """Of a picture; the first numbers are given."""
    return base64.b64encode(np.resize([*values, *[0.0] * 1280], 1280).astype("<f4").tobytes()).decode()


def pictures(*rows: str, labels: tuple[int, ...] = (0, 1)) -> dict[str, Any]:
    examples = [{"features": row, "label": label} for row, label in zip(rows, labels, strict=True)]
    return {"classes": ["a", "b"], "examples": examples}


TWO = pictures(features(1), features(0, 1))


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("learn", b"{"),
        ("learn", b"[" * 100_000),
        ("learn", b"\xff\xfe"),
        ("learn", {}),
        ("learn", {"lesson": lesson(), "methods": ["../../etc/passwd"]}),
        ("learn", {"lesson": lesson(), "methods": []}),
        ("learn", {"lesson": lesson(), "methods": ["trust"], "kind": "fit"}),
        ("learn", {"lesson": lesson(), "methods": ["trust"], "more": 1}),
        ("learn", {"lesson": {**lesson(), "classes": ["same", "same"]}, "methods": ["trust"]}),
        ("learn", {"lesson": {**lesson(), "classes": ["one"]}, "methods": ["trust"]}),
        ("learn", {"lesson": {**lesson(), "classes": ["x" * 41, "y"]}, "methods": ["trust"]}),
        ("learn", {"lesson": {**lesson(), "classes": [*"abcdefghijk"]}, "methods": ["trust"]}),
        ("learn", {"lesson": lesson(each=21), "methods": ["trust"]}),
        ("ask", {"lesson": lesson(), "methods": ["trust"], "steps": 51, "drawings": queries(1)}),
        ("ask", {"lesson": lesson(), "methods": ["trust"], "steps": 1.0, "drawings": queries(1)}),
        ("ask", {"lesson": lesson(), "methods": ["trust"], "steps": True, "drawings": queries(1)}),
        ("ask", {"lesson": lesson(), "methods": ["trust"], "steps": 1, "drawings": ["AAAA"]}),
        ("ask", {"lesson": lesson(), "methods": ["trust"], "steps": 1, "drawings": ["é" * 1048]}),
        ("ask", {"lesson": lesson(), "methods": ["trust"], "steps": 1, "drawings": queries(1) * 10_000}),
        ("fit", {"points": [[0, 1]] * 10_000}),
        ("fit", {"points": [[0, 1e300], [1, 1]]}),
        ("fit", b'{"points": [[0, NaN], [1, 1]]}'),
        ("open", {"file": "not base64"}),
        ("open", {"file": "AAAA" * 1000}),
        ("save", {"lesson": lesson(), "form": "/tmp/x"}),
        ("pictures/see", {"picture": "AAAA"}),
        ("pictures/see", {"picture": "AAAA" * (160 * 160 + 1)}),
        ("pictures/see", {"picture": "/etc/passwd"}),
        ("pictures/judge", {"lesson": lesson()}),
        ("pictures/judge", {"lesson": pictures(features(float("nan")), features(1))}),
        ("pictures/judge", {"lesson": pictures(features(3e38), features(1))}),
        ("pictures/judge", {"lesson": pictures(*[features(1)] * 22, labels=(0, *[1] * 21))}),
        ("pictures/judge", {"lesson": pictures(features(1), features(1), labels=(0, 0))}),
        ("pictures/ask", {"lesson": TWO, "methods": ["reptile"], "pictures": [features(1)]}),
        ("pictures/ask", {"lesson": TWO, "methods": ["trust"], "pictures": [features(1)] * 41}),
        ("pictures/save", {"lesson": TWO, "form": "/tmp/x"}),
    ],
)
def test_what_is_malformed_is_refused(served: Served, path: str, body: Any) -> None:
    status, answer = ask(served, f"/api/{path}", body)
    assert 400 <= status < 500
    assert len(answer) < 1000
    assert b"Traceback" not in answer


def test_large_bodies_are_refused_without_being_kept(served: Served) -> None:
    assert still_answers(served)
    before = memory(served)
    large = b'"' + b"x" * 20_000_000
    for _ in range(5):
        with suppress(BrokenPipeError, ConnectionResetError):  # the server may close the connection rather than read on
            assert ask(served, "/api/learn", large)[0] == 413
    assert chunked(served, 20_000_000) in (400, 413)
    assert memory(served) < before + 40
    assert still_answers(served)


def chunked(served: Served, count: int) -> int:
    """The status for a body that does not say how long it is."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as stream:
        head = "POST /api/learn HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n"
        stream.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").format(served.port).encode())
        piece = b"x" * 65536
        try:
            for _ in range(count // len(piece)):
                stream.sendall(b"10000\r\n" + piece + b"\r\n")
        except OSError:
            pass
        answer = stream.makefile("rb").readline()
    return int(answer.split()[1])


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "../..",
        "/etc",
        "first/..",
        "first/../first",
        "%2e%2e",
        "deeper",
        "first\0",
        "nothing",
        "",
        "FIRST",
        "./first",
    ],
)
def test_only_runs_of_the_list_are_shown(served: Served, name: str) -> None:
    for view in ("live", "example"):
        assert ask(served, f"/api/runs/{view}?run={quote(name)}")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/%2e%2e/app.py",
        "/static/..%2fapp.py",
        "/static/",
        "/static//etc/passwd",
        "/etc/passwd",
    ],
)
def test_nothing_but_the_page_is_served(served: Served, path: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=60) as stream:
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nConnection: close\r\n\r\n".encode())
        answer = stream.makefile("rb").read()
    assert b" 404 " in answer.splitlines()[0]


def test_other_sites_are_refused(served: Served) -> None:
    own = f"127.0.0.1:{served.port}"
    body = {"points": [[0, 1], [1, 0]]}
    for host in (
        "evil.example",
        f"evil.example:{served.port}",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{served.port}",
        "",
    ):
        assert ask(served, "/", Host=host)[0] == 421
    assert ask(served, "/", Host=f"localhost:{served.port}")[0] == 200
    assert ask(served, "/api/fit", body, Origin="http://evil.example")[0] == 403
    assert ask(served, "/api/fit", body, Origin="null")[0] == 403
    assert ask(served, "/api/fit", body, Origin=f"https://{own}")[0] == 403
    assert ask(served, "/api/fit", body, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(served, "/api/fit", body, Content_Type="text/plain")[0] == 415
    assert ask(served, "/api/fit", body, Origin=f"http://{own}")[0] == 200


def test_a_thousand_connections(served: Served) -> None:
    before = memory(served)
    with ExitStack() as stack:
        for number in range(MANY):
            stream = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=60))
            if number % 2:
                stream.sendall(b"POST /api/learn HTTP/1.1\r\nHost: ")  # and then nothing more
        assert still_answers(served)
        assert memory(served) < before + 200
    assert still_answers(served)


def test_more_tasks_than_can_wait(served: Served) -> None:
    """Of many lessons at once all are answered, or refused as too many; another page is answered all the same."""
    found = []

    def one(number: int) -> None:
        content = lesson(each=1)
        content["classes"] = ["circle", f"cross {number}"]
        found.append(
            ask(served, "/api/ask", {"lesson": content, "methods": ["trust"], "steps": 0, "drawings": queries(1)})
        )

    threads = [threading.Thread(target=one, args=(number,)) for number in range(150)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {status for status, _ in found} <= {200, 429}
    assert len(found) == 150
    assert still_answers(served)


def test_other_hosts_need_the_token() -> None:
    served = start("--host", "0.0.0.0")
    try:
        path = "/" + served.address.split("/", 3)[3]
        assert len(path) > 20
        for wrong in ("/", path[:-1], path[:-2] + "/", "/x" + path, "/api/about", path + "../api/about"):
            assert ask(served, wrong)[0] == 404
        assert ask(served, path)[0] == 200
        assert ask(served, path + "api/about")[0] == 200
        assert ask(served, path, Host=f"evil.example:{served.port}")[0] == 421
    finally:
        stop(served)

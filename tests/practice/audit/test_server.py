"""The page's server: who may ask, what is served, and decisions that arrive at once."""

import io
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from eigen_reptile.errors import ConfigError
from eigen_reptile.practice.audit.audit import audit_labels
from eigen_reptile.practice.audit.decisions import read_decisions
from eigen_reptile.practice.audit.review import Review, review_of
from eigen_reptile.practice.audit.server import MOST_BODY, Site, serving

CLASSES = ("cat", "dog & <b>", "ant")


@pytest.fixture
def review(tmp_path: Path) -> Review:
    """Three classes of eight pictures, one of them hidden from the page, and two wrong labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 8)
    features = np.eye(3)[labels] + 0.2 * rng.normal(size=(24, 3))
    features[[0, 9]] = features[[23, 1]]
    paths = []
    for number, label in enumerate(labels):
        folder = tmp_path / "classes" / CLASSES[label]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40 + 30 * number, 50), (10 * number, 0, 0)).save(folder / f"{number}.png")
        paths.append(f"{CLASSES[label]}/{number}.png")
    audit = audit_labels(features, [CLASSES[label] for label in labels], below=0.5)
    out = tmp_path / "out"
    out.mkdir()
    return review_of(tmp_path / "classes", audit, paths, out, {"apply": "do it", "undo": "undo it"})


@pytest.fixture
def site(review: Review) -> Iterator[Site]:
    with serving(review) as site:
        yield site


def ask(
    site: Site, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", site.port, timeout=20)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, names)
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def decide(site: Site, value: Any) -> int:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return ask(site, f"/{site.token}/decide", "POST", body, Content_Type="application/json")[0].status


def test_page_state_and_pictures(site: Site, review: Review) -> None:
    response, page = ask(site, f"/{site.token}/")
    assert response.status == 200
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    nonce = policy.split("'nonce-")[1].split("'")[0]
    assert page.count(nonce.encode()) == 2
    assert b"http://" not in page
    assert b"https://" not in page
    state = json.loads(ask(site, f"/{site.token}/state")[1])
    assert [one["path"] for one in state["suspects"][:2]] == [review.paths[one] for one in review.suspects[:2]]
    assert {one["sample"] for one in state["suspects"]} >= {0, 9}
    shown = {one["sample"] for one in state["suspects"]} | {one["evidence"] for one in state["suspects"]}
    shown |= {sample for samples in state["typical"].values() for sample in samples}
    for sample in range(24):
        response, data = ask(site, f"/{site.token}/picture/{sample}")
        assert response.status == (200 if sample in shown else 404)
        if sample in shown:
            with Image.open(io.BytesIO(data)) as picture:
                assert max(picture.size) == min(320, 40 + 30 * sample) or picture.size == (40, 50)


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/state", "/wrong/state", "/{token}", "/{token}x/", "/{token}/picture/../state", "/{token}/picture/-1"),
        *("/{token}/picture/1e0", "/{token}/picture/٣", "/{token}/../../etc/passwd", "/{token}/picture/%2e%2e/x"),
        *("/{token}/picture/99999999999999999999", "/{token}/picture/", "/{token}/page.html", "/{token}/state/"),
    ],
)
def test_nothing_else_is_served(site: Site, path: str) -> None:
    target = path.replace("{token}", site.token)
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as stream:
        stream.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\nConnection: close\r\n\r\n".encode())
        answer = stream.makefile("rb").read()
    assert b" 404 " in answer.splitlines()[0]
    assert site.token.encode() not in answer


def test_other_hosts_and_origins_are_refused(site: Site) -> None:
    path = f"/{site.token}/state"
    assert ask(site, path, Host="evil.example")[0].status == 421
    assert ask(site, path, Host=f"evil.example:{site.port}")[0].status == 421
    assert ask(site, path, Host=f"localhost:{site.port}")[0].status == 200
    assert ask(site, path, Origin="http://evil.example")[0].status == 403
    assert ask(site, path, Origin=f"http://127.0.0.1:{site.port}")[0].status == 200
    body = json.dumps({"suspect": 0, "verdict": "accept"}).encode()
    assert ask(site, f"/{site.token}/decide", "POST", body, Content_Type="text/plain")[0].status == 415
    assert not site.review.decisions.verdicts()


def test_decisions_are_on_the_disk_when_they_are_answered(site: Site, tmp_path: Path) -> None:
    assert decide(site, {"suspect": 1, "verdict": "accept"}) == 200
    assert [(one.path, one.verdict) for one in read_decisions(tmp_path / "out")] == [
        (site.review.paths[site.review.suspects[1]], "accept")
    ]
    state = json.loads(ask(site, f"/{site.token}/state")[1])
    assert [one["verdict"] for one in state["suspects"]][:2] == [None, "accept"]
    assert decide(site, {"suspect": 1, "verdict": None}) == 200
    assert read_decisions(tmp_path / "out") == []


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"\xff", {"suspect": 99, "verdict": "accept"}, {"suspect": -1, "verdict": "accept"}),
        *({"suspect": True, "verdict": "accept"}, {"suspect": 0, "verdict": "maybe"}, {"suspect": 0}, b"[" * 4000),
        *({"suspect": 0, "verdict": ["accept"]}, {"suspect": 0, "verdict": "accept", "more": 1}),
    ],
)
def test_other_requests_decide_nothing(site: Site, body: Any) -> None:
    assert decide(site, body) == 400
    assert site.review.decisions.verdicts() == {}


@pytest.mark.parametrize(
    ("header", "status"),
    [
        *((f"Content-Length: {MOST_BODY + 1}", 413), (f"Content-Length: {'9' * 40}", 413)),
        *(("Content-Length: -1", 411), ("Transfer-Encoding: chunked", 411), ("X: y", 411)),
    ],
)
def test_large_and_endless_bodies_are_not_read(site: Site, header: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", site.port), timeout=20) as stream:
        host = f"Host: 127.0.0.1:{site.port}"
        stream.sendall(f"POST /{site.token}/decide HTTP/1.1\r\n{host}\r\n{header}\r\n\r\n".encode())
        answer = stream.makefile("rb").read()  # ends, because the server closes the connection
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


def test_concurrent_decisions_and_pictures(site: Site, tmp_path: Path) -> None:
    suspects = len(site.review.suspects)

    def work(number: int) -> int:
        if number % 2:
            return ask(site, f"/{site.token}/picture/{site.review.suspects[0]}")[0].status
        return decide(site, {"suspect": number % suspects, "verdict": "accept"})

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(work, range(40))) == {200}
    assert len(read_decisions(tmp_path / "out")) == len({number % suspects for number in range(0, 40, 2)})


def test_a_picture_that_was_moved_is_not_found(site: Site) -> None:
    sample = site.review.suspects[0]
    (site.review.root / site.review.paths[sample]).unlink()
    assert ask(site, f"/{site.token}/picture/{sample}")[0].status == 404


def test_a_decision_that_cannot_be_written_is_not_confirmed(site: Site, tmp_path: Path) -> None:
    (tmp_path / "out").rename(tmp_path / "elsewhere")
    assert decide(site, {"suspect": 0, "verdict": "accept"}) == 500
    assert site.review.decisions.verdicts() == {}


def test_ports(review: Review) -> None:
    with pytest.raises(ConfigError, match="`port` must be from 0 to 65535"), serving(review, 1 << 16):
        pass
    with (
        serving(review) as site,
        pytest.raises(ConfigError, match="cannot use `port`"),
        serving(review, site.port),
    ):
        pass


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium")
def test_a_narrow_page_begins_with_its_heading(site: Site, tmp_path: Path) -> None:
    """The list of suspects is below the suspect there, and showing its current row must not scroll the page."""
    file = tmp_path / "page.png"
    switches = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    size = ["--window-size=390,900", "--virtual-time-budget=5000", f"--screenshot={file}"]
    subprocess.run(["chromium", *switches, *size, site.address], check=True, capture_output=True, timeout=60)
    heading = np.asarray(Image.open(file).convert("L"))[:40]
    assert heading.min() < 100 < 200 < heading.max()

"""What the service does not take, and says so; afterwards it answers as before."""

import base64
import contextlib
import gzip
import io
import json
import socket
import struct
import time
import zlib

import httpx
import numpy as np
import pytest
from PIL import Image

from tests.support.commands import in_one_process

pytestmark = in_one_process

GOOD = {"samples": [[0.0] * 8]}


def endless(part=b"x" * 2**14, most=10_000):
    """The parts of a body whose length no header says."""
    for _ in range(most):
        yield part


@pytest.fixture
def client(small_served):
    with small_served.client() as opened:
        yield opened
        assert opened.post("/predict", json=GOOD).status_code == 200


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["/predict", "/nothing", "/model"])
def test_a_huge_body_with_its_length(client, path):
    answer = client.post(path, content=b" " * 2**20, headers=JSON)
    assert answer.status_code == 413
    assert answer.json() == {"error": "the body is larger than 0.0625 MiB"}
    assert answer.headers["Connection"] == "close"


def test_a_huge_body_without_a_length_is_not_held(client, small_served):
    before = small_served.memory()
    with contextlib.suppress(httpx.TransportError):  # it still sends when the service has closed
        assert client.post("/predict", content=endless(), headers=JSON).status_code == 413
    lines = client.get("/metrics").text.splitlines()
    assert any(
        line.startswith('ofcl_requests_total{route="/predict",status="413"}') for line in lines
    )
    assert "ofcl_bodies_bytes 0" in lines
    assert small_served.memory() < before + 50


def test_a_huge_body_that_asks_first_is_never_sent(small_served):
    host, port = small_served.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                     b"\r\nContent-Length: 99999999\r\nExpect: 100-continue\r\n\r\n")  # fmt: skip
        assert line.recv(100).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    "head",
    [
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 50\r\n\r\n{",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
        b"POST /predict HTTP/1.1\r\nHost: local",
        b"",
    ],
)
def test_a_slow_request_is_given_up(small_served, head):
    host, port = small_served.address.removeprefix("http://").split(":")
    start = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=15) as line:
        line.sendall(head)
        got = b""
        while part := line.recv(4096):
            got += part
    assert time.monotonic() - start < 10
    if b"\r\n\r\n" in head:
        assert got.startswith(b"HTTP/1.1 408 ")
        assert b"the body is slow" in got
    else:
        assert got == b""


def test_somebody_who_leaves_is_counted(client, small_served):
    host, port = small_served.address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
                     b"\r\nContent-Length: 50\r\n\r\n{")  # fmt: skip
    for _ in range(100):
        if 'ofcl_requests_total{route="/predict",status="499"} 1' in client.get("/metrics").text:
            return
        time.sleep(0.05)
    raise AssertionError("it was not counted")


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe\x00", 400, "not JSON"),
        (b"[" * 30_000, 400, "not JSON"),
        (b'{"samples": [[NaN]]}', 400, "not JSON"),
        (b'{"samples": [[1e999,0,0,0,0,0,0,0]]}', 422, "not a number, or too large"),
        (b'{"samples": [[%s,0,0,0,0,0,0,0]]}' % (b"9" * 5000), 400, "not JSON"),
        (b"[]", 422, "one key"),
        (b'{"samples": [], "more": 1}', 422, "one key"),
        (b'{"samples": "text"}', 422, "expected a list"),
        (b'{"samples": [[1, 2]]}', 422, "2 numbers; expected 8"),
        (b'{"samples": [["a","b","c","d","e","f","g","h"]]}', 422, "not a number"),
        (b'{"samples": [[[1],[1],[1],[1],[1],[1],[1],[1]]]}', 422, "lists in it"),
        (b'{"samples": ["/etc/passwd"]}', 422, "str is given"),
        (b'{"samples": [null]}', 422, "NoneType is given"),
        (b'{"samples": [{"y": [1]}]}', 422, "column 'x' is missing"),
        (json.dumps({"samples": [[0.0] * 8] * 21}).encode(), 413, "a request may have 20"),
    ],
)
def test_wrong_json(client, body, status, problem):
    answer = client.post("/predict", content=body, headers=JSON)
    assert answer.status_code == status
    assert problem in answer.json()["error"]


@pytest.mark.parametrize("query", ["top=-1", "top=101", "top=x", "uncertainty=perhaps"])
def test_wrong_questions(client, query):
    answer = client.post(f"/predict?{query}", json=GOOD)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(query.split("=")[0])


def test_unknown_routes_methods_and_types(client):
    assert client.get("/../etc/passwd").json() == {"error": "Not Found"}
    assert client.get("/web/..%2f..%2fweb_app.py").status_code == 404
    assert client.get("/predict").status_code == 405
    assert (
        client.post("/predict", content=b"{}", headers={"Content-Type": "text/plain"}).status_code
        == 415
    )
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    assert client.get("/ws", headers=upgrade).status_code == 404


MULTIPART = {"Content-Type": "multipart/form-data; boundary=b"}
PART = b'--b\r\nContent-Disposition: form-data; name="f"; filename="t.jsonl"\r\n\r\n{}\r\n'


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"nothing", MULTIPART, 400),
        (b"", MULTIPART, 422),
        (b"--b--\r\n", {"Content-Type": "multipart/form-data"}, 400),
        (b'--b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n--b--\r\n', MULTIPART, 400),
        (b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--\r\n", MULTIPART, 400),
        (PART * 21 + b"--b--\r\n", MULTIPART, 413),
        (PART + b"--b--\r\n", MULTIPART, 422),
    ],
)
def test_wrong_uploads(client, body, headers, status):
    answer = client.post("/predict", content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("name", "data", "status", "problem"),
    [
        ("t.csv", b"a,c\n1,2\n", 422, "column 'b' is missing; it has a, c"),
        ("t.csv", b"a,b\n1,much\n", 422, "column 'b' is not a number but 'much'"),
        ("t.csv", b"a,b\n1\n", 422, "1 fields, but there are 2 columns"),
        ("t.csv", b"", 422, "is empty"),
        ("t.csv", b"\xff\xfe\xff", 422, ""),
        ("t.csv", b"a," * 20_000 + b"\n1", 422, "more than 10000 columns"),
        ("t.csv", b"a,b\n" + b"1,2\n" * 200_000, 413, "a request may have 1000"),
        ("t.jsonl", b"{}\n", 422, "column 'a' is missing"),
        ("t.parquet", b"PAR1....PAR1", 422, "cannot be read as Parquet"),
        ("t.csv.gz", gzip.compress(b"a,b\n" + b"1,2\n" * 1000), 415, "expected a table"),
        ("t.exe", b"MZ", 415, "expected a table"),
        ("../../t", b"", 415, "expected a table"),
    ],
    ids=[
        "missing column", "word", "short row", "empty", "no text", "many columns", "many rows",
        "missing in JSON", "no parquet", "packed", "program", "path",
    ],  # not the bytes themselves: they are long, and those of gzip tell the time
)  # fmt: skip
def test_wrong_tables(table_served, name, data, status, problem):
    with table_served.client() as client:
        answer = client.post("/predict", files={"f": (name, data)})
        assert answer.status_code == status, answer.text
        assert problem in answer.json()["error"]
        assert client.post("/predict", json={"samples": [[1, 2]]}).status_code == 200


def picture(side=8, kind="PNG"):
    file = io.BytesIO()
    Image.fromarray(np.zeros((side, side), dtype=np.uint8)).save(file, kind)
    return file.getvalue()


def bomb(width, height):
    """A PNG of few bytes that says it has many pixels."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    pixels = zlib.compress(bytes((width + 1) * min(height, 6000)), 9)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
IMAGES = [
    (b"", 422, "cannot be read as an image"),
    (b"not an image", 422, "cannot be read as an image"),
    (picture()[:45], 422, "cannot be read as an image"),
    (picture(200, "JPEG")[:300], 422, "cannot be read as an image"),
    (EPS, 422, "expected one of PNG, JPEG"),
    (picture(9), 422, "9 × 9 pixels; this model takes grey images of 8 × 8"),
    (bomb(6000, 6000), 413, "6000 × 6000 pixels; at most 25000000"),
    (bomb(60_000, 60_000), 413, "too many pixels"),
]


@pytest.mark.parametrize(("data", "status", "problem"), IMAGES)
def test_wrong_images(images_served, data, status, problem):
    with images_served.client() as client:
        uploaded = client.post("/predict", files={"f": ("scan.png", data)})
        coded = base64.b64encode(data).decode()
        written = client.post("/predict", json={"samples": [coded]})
        for answer in (uploaded, written):
            assert answer.status_code == status, answer.text
            assert problem in answer.json()["error"]
        assert client.post("/predict", files={"f": ("scan.png", picture())}).status_code == 200
    assert images_served.memory() < 1500


@pytest.mark.parametrize(
    ("sample", "problem"),
    [
        ("/etc/passwd", "not base64"),
        ([[1, 2], [3]], "not of one length"),
        ([[0] * 8] * 7, "lists of shape 7 × 8"),
        ([[[0] * 8] * 8] * 2, "lists of shape 2 × 8 × 8"),
        ([["a"] * 8] * 8, "lists of shape 8 × 8 of <U1"),
        ([[300] * 8] * 8, "values from 300"),
        ([[10**30] * 8] * 8, "of object"),
        ({"x": 1}, "dict is given"),
        (None, "NoneType is given"),
    ],
)
def test_wrong_images_in_json(images_served, sample, problem):
    with images_served.client() as client:
        answer = client.post("/predict", json={"samples": [sample]})
    assert answer.status_code == 422
    assert problem in answer.json()["error"]


def test_every_answer_has_the_headers_that_protect(small_served):
    with small_served.client() as client:
        answers = [client.get(path) for path in ("/", "/docs", "/model", "/nothing")]
        answers.append(client.get("/", headers={"Host": "evil.example"}))
    for answer in answers:
        assert "default-src 'none'; script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "server" not in answer.headers

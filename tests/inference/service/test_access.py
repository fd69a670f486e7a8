"""Who may ask the service."""

import ssl

import httpx
import pytest

from ofcl.errors import OfclError
from ofcl.federation.setup.keys import certify, make_authority
from ofcl.inference.service.access_check import Access, read_token
from ofcl.inference.service.replies import Refused
from tests.inference.service.conftest import TOKEN, served
from tests.support.commands import in_one_process, ofcl

pytestmark = in_one_process

BODY = {"samples": [[0.0] * 8]}
WRONG = [None, "", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"bearer {TOKEN}"]


@pytest.mark.parametrize("shown", WRONG)
@pytest.mark.parametrize("path", ["/predict", "/model", "/metrics", "/nothing"])
def test_without_the_token_nothing_is_answered(token_served, path, shown):
    headers = {} if shown is None else {"Authorization": shown}
    with token_served.client(headers=headers) as client:
        answer = client.post(path, json=BODY) if path == "/predict" else client.get(path)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert "token is needed" in answer.json()["error"]


def test_with_the_token_all_is_answered(token_served):
    with token_served.client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        assert client.post("/predict", json=BODY).status_code == 200
        assert client.get("/model").status_code == 200
        assert client.get("/nothing").status_code == 404


def test_what_is_open_tells_nothing_of_the_model(token_served):
    with token_served.client() as client:
        for path in ("/", "/docs", "/openapi.json", "/health", "/web/page.js"):
            answer = client.get(path)
            assert answer.status_code == 200
            assert "class 1" not in answer.text
            assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""]
)
def test_names_that_were_made_to_lead_here_are_refused(images_served, host):
    with images_served.client() as client:
        answer = client.get("/model", headers={"Host": host})
    assert answer.status_code == 403


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "127.0.0.1", "[::1]:8000"])
def test_names_of_this_machine_are_taken(images_served, host):
    with images_served.client() as client:
        assert client.get("/model", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_pages_of_other_sites_may_not_ask(images_served, headers):
    with images_served.client() as client:
        answer = client.post("/predict", json={"samples": []}, headers=headers)
        before = client.options("/predict", headers=headers)
    assert answer.status_code == before.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_its_own_page_may_ask(images_served):
    with images_served.client(headers={"Origin": images_served.address}) as client:
        assert client.post("/predict", json={"samples": []}).status_code == 200


def test_other_addresses_need_a_token(vector_model, monkeypatch):
    monkeypatch.delenv("OFCL_TOKEN", raising=False)
    code, out, said = ofcl("serve", vector_model, "--host", "0.0.0.0", "--port", 0)
    assert (code, out) == (2, "")
    assert "so a token is needed" in said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_only_loopback_needs_none(host, monkeypatch):
    monkeypatch.delenv("OFCL_TOKEN", raising=False)
    with pytest.raises(OfclError, match="token is needed"):
        read_token(None, host)
    assert read_token(None, "127.0.0.1") is read_token(None, "::1") is None
    monkeypatch.setenv("OFCL_TOKEN", TOKEN)
    assert read_token(None, host) == read_token(None, "127.0.0.1") == TOKEN


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (TOKEN, 0o644, "others can read"),
        (TOKEN, 0o620, "others can read or change"),
        ("short", 0o600, "5 characters; expected at least 16"),
        ("", 0o600, "0 characters"),
        ("two words, which is wrong", 0o600, "without spaces"),
        ("müde müde müde müde", 0o600, "ASCII"),
    ],
)
def test_files_of_tokens_that_are_refused(tmp_path, content, mode, problem):
    file = tmp_path / "token"
    file.write_text(content)
    file.chmod(mode)
    with pytest.raises(OfclError, match=problem):
        read_token(file, "127.0.0.1")


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(OfclError, match="cannot be read"):
        read_token(tmp_path / "none", "127.0.0.1")


def test_elsewhere_any_name_of_the_machine_is_good_with_the_token():
    access = Access("0.0.0.0", TOKEN)
    access.check("/model", {b"host": b"box.lan", b"authorization": f"Bearer {TOKEN}".encode()})
    with pytest.raises(Refused) as refused:
        access.check("/model", {b"host": b"box.lan"})
    assert refused.value.status == 401


def test_with_a_certificate_it_is_encrypted(vector_model, tmp_path):
    authority = make_authority("test")
    made = certify(authority, ["127.0.0.1"])
    for name, content in (
        ("ca", authority.certificate),
        ("cert", made.certificate),
        ("key", made.key),
    ):
        (tmp_path / name).write_bytes(content)
    files = ("--certfile", tmp_path / "cert", "--keyfile", tmp_path / "key")
    with served(vector_model, *files) as service:
        assert service.address.startswith("https://")
        trusted = ssl.create_default_context(cafile=tmp_path / "ca")
        with service.client(verify=trusted) as client:
            assert client.post("/predict", json=BODY).status_code == 200
        with pytest.raises(httpx.ConnectError, match="certificate"), service.client() as client:
            client.get("/health")


def test_what_cannot_be_listened_with_is_said(vector_model, tmp_path):
    (tmp_path / "wrong").write_text("no certificate")
    wrong = ("--certfile", tmp_path / "wrong", "--keyfile", tmp_path / "wrong")
    mistakes = [
        (wrong, "the certificate cannot be used"),
        (wrong[:2], "are given together"),
        (("--max-body", 0), "--max-body"),
    ]
    for options, problem in mistakes:
        code, _, said = ofcl("serve", vector_model, "--port", 0, *options)
        assert code == 2
        assert problem in said

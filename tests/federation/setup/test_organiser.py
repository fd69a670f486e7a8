"""A federation is made, parties come and leave, certificates are renewed."""

import shutil
import stat

import pytest

from ofcl import OfclError
from ofcl.federation.setup import keys
from ofcl.federation.setup.folders import Federation, load_party, load_server
from ofcl.federation.setup.organiser import add_party, create, remove_party, renew


def test_init_makes_folders_with_secrets_that_only_their_owner_reads(tmp_path):
    federation = Federation("trial", ("a", "b"), ("learn.example.org", "10.0.0.7"), 9443)
    create(tmp_path / "f", federation)
    server, party = load_server(tmp_path / "f"), load_party(tmp_path / "f" / "b")
    assert server.federation == federation
    assert (party.party, party.number, party.server) == ("b", 1, "learn.example.org:9443")
    for path in (server.key, server.secret, party.key, tmp_path / "f/server/admin.token",
                 tmp_path / "f/authority/ca.key"):  # fmt: skip
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "ofcl federation client b" in (tmp_path / "f" / "b" / "README.md").read_text()
    names = {p.name for p in (tmp_path / "f" / "b").iterdir()}
    assert names == {"key", "ca.crt", "party.toml", "policy.toml", "README.md", "peers",
                         "server.pub"}  # fmt: skip
    for name in ("a", "b"):  # all parties' public keys, for secure aggregation
        public = (tmp_path / "f" / "b" / "peers" / f"{name}.pub").read_bytes()
        assert public == (tmp_path / "f" / "server" / "keys" / f"{name}.pub").read_bytes()
    with pytest.raises(OfclError, match="exists"):
        create(tmp_path / "f", federation)
    with pytest.raises(OfclError, match="not a federation"):
        load_server(tmp_path)
    with pytest.raises(OfclError, match="not a party's folder"):
        load_party(tmp_path)


def test_parties_come_and_leave(tmp_path):
    folder = tmp_path / "f"
    create(folder, Federation("trial", ("a", "b"), ("127.0.0.1",), 9443))
    add_party(folder, "c")
    remove_party(folder, "b")
    server = load_server(folder)
    assert server.federation.parties == ("a", "b", "c")
    assert server.federation.present == ("a", "c") == tuple(server.public_keys())
    assert server.federation.gone == {1}
    assert all(path.exists() for path in server.public_keys().values())
    assert not (folder / "server" / "keys" / "b.pub").exists()
    party = load_party(folder / "c")
    assert (party.party, party.number) == ("c", 2)
    assert party.authority.read_bytes() == server.authority.read_bytes()
    assert stat.S_IMODE(party.key.stat().st_mode) == 0o600
    for change, name, message in (
        (add_party, "c", "the same name"), (add_party, "b", "has left"),
        (add_party, "runs", "cannot be called"), (remove_party, "b", "unknown party 'b'"),
        (remove_party, "nobody", "unknown party 'nobody'"),
    ):  # fmt: skip
        with pytest.raises(OfclError, match=message):
            change(folder, name)
    remove_party(folder, "a")
    with pytest.raises(OfclError, match="'c' is the only party"):
        remove_party(folder, "c")


def test_the_servers_certificate_is_renewed_before_it_expires(tmp_path, monkeypatch):
    from cryptography import x509

    folder = tmp_path / "f"
    monkeypatch.setattr(keys, "DAYS", 20)
    create(folder, Federation("trial", ("a",), ("learn.example.org",), 9443))
    server = load_server(folder)
    assert "good for 19 more days: ofcl federation renew" in server.expiry()
    monkeypatch.setattr(keys, "DAYS", 0)
    renew(folder)
    assert "has expired" in server.expiry()
    monkeypatch.setattr(keys, "DAYS", 825)
    old = server.key.read_bytes()
    renew(folder, ["learn.example.net"])
    assert server.expiry() is None
    assert load_server(folder).federation.hosts == ("learn.example.net",)
    assert server.key.read_bytes() != old
    assert stat.S_IMODE(server.key.stat().st_mode) == 0o600
    authority = x509.load_pem_x509_certificate((folder / "a" / "ca.crt").read_bytes())
    certificate = x509.load_pem_x509_certificate(server.certificate.read_bytes())
    certificate.verify_directly_issued_by(authority)  # the one that parties were handed
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["learn.example.net", "localhost"]
    create(tmp_path / "g", Federation("other", ("a",), ("learn.example.org",), 9443))
    shutil.rmtree(folder / "authority")
    shutil.copytree(tmp_path / "g" / "authority", folder / "authority")
    with pytest.raises(OfclError, match="not the one that the parties were handed"):
        renew(folder)
    shutil.rmtree(folder / "authority")
    with pytest.raises(OfclError, match="bring it back"):
        renew(folder)
    certificate.verify_directly_issued_by(authority)
    assert x509.load_pem_x509_certificate(server.certificate.read_bytes()) == certificate


@pytest.mark.parametrize(("parties", "message"), [
    ((), "needs parties"), (("a b",), "cannot name a party"), (("../x",), "cannot name a party"),
    (("server",), "cannot be called"), (("a", "A"), "the same name"),
])  # fmt: skip
def test_names_that_cannot_be(tmp_path, parties, message):
    with pytest.raises(OfclError, match=message):
        create(tmp_path / "f", Federation("x", parties, ("127.0.0.1",), 8000))

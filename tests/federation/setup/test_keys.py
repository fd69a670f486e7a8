"""Certificates and keys."""

from ofcl.federation.setup.folders import Federation, load_server
from ofcl.federation.setup.organiser import create


def test_the_certificate_is_for_the_server_and_signed_by_the_authority(tmp_path):
    from cryptography import x509

    create(tmp_path / "f", Federation("trial", ("a",), ("learn.example.org", "10.0.0.7"), 9443))
    server = load_server(tmp_path / "f")
    authority = x509.load_pem_x509_certificate(server.authority.read_bytes())
    certificate = x509.load_pem_x509_certificate(server.certificate.read_bytes())
    certificate.verify_directly_issued_by(authority)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["learn.example.org", "localhost"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == [
        "10.0.0.7", "127.0.0.1"]  # fmt: skip

"""The folders of a federation's server and parties."""

import pytest

from ofcl import OfclError
from ofcl.federation.setup.folders import Federation, is_loopback, load_party, load_server
from ofcl.federation.setup.organiser import create
from tests.support.federation import FEDERATION


@pytest.mark.parametrize(("host", "expected"), [
    ("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("127.9.9.9", True),
    ("0.0.0.0", False), ("10.0.0.1", False), ("localhost.example.org", False), ("", False),
])  # fmt: skip
def test_what_is_this_machine_alone(host, expected):
    assert is_loopback(host) is expected


def test_where_a_server_listens_is_where_its_own_commands_find_it(tmp_path):
    create(tmp_path / "f", Federation("x", ("a",), ("10.0.0.7", "learn.example.org"), 9443))
    server = load_server(tmp_path / "f")
    assert server.here == "127.0.0.1:9443"
    for host, here in (("10.0.0.7", "10.0.0.7"), ("0.0.0.0", "127.0.0.1"), ("::1", "[::1]"),
                       ("localhost", "127.0.0.1")):  # fmt: skip
        server.listen_on(host)
        assert server.here == f"{here}:9443"
    with pytest.raises(OfclError, match="the certificate is not for '10.0.0.8'"):
        server.listen_on("10.0.0.8")


def test_a_party_runs_once(tmp_path):
    create(tmp_path / "f", FEDERATION)
    party = load_party(tmp_path / "f" / "hospital-a")
    with party.used(), pytest.raises(OfclError, match="hospital-a is running"), party.used():
        pass
    with party.used():
        pass

"""A renewed certificate reaches a server that is running."""

import socket
import ssl
import threading

from ofcl.federation.server_side.renewed_certificate import RenewedCertificate
from ofcl.federation.setup.folders import Federation, load_server
from ofcl.federation.setup.organiser import create, renew


def connect(port, authority):
    context = ssl.create_default_context(cafile=str(authority))
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)),
                               server_hostname="127.0.0.1")  # fmt: skip


def test_new_connections_get_the_new_certificate_and_old_ones_stay(tmp_path):
    folder, said = tmp_path / "trial", []
    create(folder, Federation("trial", ("a", "b"), ("127.0.0.1",), 8000))
    here = load_server(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(here.certificate, here.key)
    renewed = RenewedCertificate(here.certificate, here.key, said.append)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]

    def echo(accepted):
        with context.wrap_socket(accepted, server_side=True) as each:
            while data := each.recv(10):
                each.sendall(data)

    def accept():
        for _ in range(3):
            threading.Thread(target=echo, args=(listening.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listening, connect(port, here.authority) as before:
        first = before.getpeercert()["serialNumber"]
        key = here.key.read_bytes()
        renew(folder)
        new = here.key.read_bytes()
        here.key.write_bytes(key)  # one half is still the old one
        renewed.look(context)
        with connect(port, here.authority) as between:
            assert between.getpeercert()["serialNumber"] == first
        here.key.write_bytes(new)
        renewed.look(context)
        with connect(port, here.authority) as after:
            assert after.getpeercert()["serialNumber"] != first
        before.sendall(b"still")
        assert before.recv(10) == b"still"
    assert said == ["takes the renewed certificate; nobody has to connect again"]

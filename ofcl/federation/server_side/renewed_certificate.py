"""Takes a renewed certificate into a server that is running: new connections get the new one.

Connections that are open stay open, with the certificate that they began with.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from pathlib import Path

LOOK_AGAIN = 5.0  # seconds between two looks at the files


class RenewedCertificate:
    """Loads the server's certificate and key again when their files have changed.

    Args:
        certificate: The file of the certificate.
        key: The file of its key.
        tell: Is given a line when a certificate was taken.
    """

    def __init__(self, certificate: Path, key: Path, tell: Callable[[str], None]) -> None:
        self._certificate, self._key, self._tell = certificate, key, tell
        self._loaded = self._contents()

    def look(self, context: ssl.SSLContext) -> None:
        """Takes the certificate if it is another one than before, and its key is there too.

        Args:
            context: The context of the server's connections.
        """
        try:
            contents = self._contents()
            if contents == self._loaded:
                return
            # First apart: a pair of which one half is old must not reach the server.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
            context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError):  # the other file is still to be written
            return
        self._loaded = contents
        self._tell("takes the renewed certificate; nobody has to connect again")

    def watch(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Looks at the files every few seconds from now on, while the process runs.

        Args:
            context: The context of the server's connections.

        Returns:
            The same context.
        """

        def look_on() -> None:
            while True:
                pause.wait(LOOK_AGAIN)
                self.look(context)

        pause = threading.Event()
        threading.Thread(target=look_on, name="certificate", daemon=True).start()
        return context

    def _contents(self) -> tuple[bytes, bytes]:
        """Reads both files."""
        return self._certificate.read_bytes(), self._key.read_bytes()

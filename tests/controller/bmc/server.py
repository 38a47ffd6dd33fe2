"""A BMC on loopback: HTTPS with a certificate of its own making, sessions, and a tree of resources.

A route may be a resource, bytes, or a function of the request's handler that answers in its own way.
"""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

USER, PASSWORD = "auditor", 'k3ep "this" secret'
SESSIONS = "/redfish/v1/SessionService/Sessions"


@dataclass
class Bmc:
    """tree: routes. asked: (method, path) of every request. free: set when the test is over, for routes that wait."""

    tree: dict[str, Any]
    address: str = ""
    certificate: Path = field(default_factory=Path)
    fingerprint: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)
    sessions: set[str] = field(default_factory=set)
    leaked: list[str] = field(default_factory=list)

    def route(self, path: str) -> Any:
        return self.tree.get(path.removeprefix("/redfish/v1").strip("/"))


class Handler(BaseHTTPRequestHandler):
    bmc: Bmc
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one packet, not one for each header

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.bmc.asked.append(("GET", self.path))
        if self.headers.get("Authorization"):
            self.bmc.leaked.append(self.path)
        route = self.bmc.route(self.path)
        public = self.path.rstrip("/") == "/redfish/v1"
        if not public and self.headers.get("X-Auth-Token") not in self.bmc.sessions:
            self.answer(401, {"error": {}})
        elif callable(route):
            route(self)
        elif route is None:
            self.answer(404, {"error": {}})
        else:
            self.answer(200, route)

    def do_POST(self) -> None:
        self.bmc.asked.append(("POST", self.path))
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if (route := self.bmc.tree.get("POST")) is not None:
            route(self, said)
        elif self.path != SESSIONS or said != {"UserName": USER, "Password": PASSWORD}:
            self.answer(401, {"error": {"message": f"no: {said}"}})
        else:
            self.bmc.sessions.add("token-1")
            self.answer(201, {}, {"X-Auth-Token": "token-1", "Location": f"{SESSIONS}/1"})

    def do_DELETE(self) -> None:
        self.bmc.asked.append(("DELETE", self.path))
        self.bmc.sessions.clear()
        self.answer(204, b"")

    def answer(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def certify(folder: Path) -> tuple[Path, Path, str]:
    """A self-signed certificate for 127.0.0.1: its file, its key's, its SHA-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bmc")])
    now = datetime.datetime.now(datetime.timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "bmc.pem", folder / "bmc.key"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    files[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return *files, made.fingerprint(hashes.SHA256()).hex()


@contextmanager
def running(tree: dict[str, Any], pair: tuple[Path, Path, str]) -> Iterator[Bmc]:
    certificate, key, fingerprint = pair
    bmc = Bmc(tree, certificate=certificate, fingerprint=fingerprint)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Mine", (Handler,), {"bmc": bmc, "timeout": 20}))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    bmc.address = f"127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield bmc
    finally:
        bmc.free.set()
        server.shutdown()
        server.server_close()

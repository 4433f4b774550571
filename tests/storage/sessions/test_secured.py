"""Servers behind TLS and passwords: let in, or turned away without their words or the password in an error."""

import asyncio
import ipaddress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from memory.errors import Unavailable
from storage.sessions.client import SessionClient
from storage.sessions.redis_store import RedisSessions
from tests.contract.session_backends import opened, scope, turn
from tests.servers import Redis, RedisMasters
from tests.servers.server import spare_port


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Signed by itself, for 127.0.0.1. (certificate, key)"""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encoded = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(encoded)
    return folder / "cert.pem", folder / "key.pem"


async def test_tls_is_spoken_and_the_certificate_is_checked(certificate, tenant):
    cert, key = certificate
    port = spare_port()
    files = ("--tls-cert-file", str(cert), "--tls-key-file", str(key), "--tls-ca-cert-file", str(cert))
    with Redis("--tls-port", str(port), *files, "--tls-auth-clients", "no"):
        client = SessionClient(f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={cert}", deadline_s=10)
        me = await opened(RedisSessions(client), scope(tenant))
        assert (await RedisSessions(client).append(me, [turn("a")], 10))[0].seq == 1
        await client.aclose()
        stranger = SessionClient(f"rediss://127.0.0.1:{port}/0", deadline_s=10)
        with pytest.raises(Unavailable) as error:
            await stranger.ping()
        assert error.value.args == ("sessions",) and error.value.__suppress_context__
        await stranger.aclose()


async def test_a_password_lets_in_and_a_wrong_one_is_unavailable(tenant, capfd):
    with Redis() as server:
        with server.client() as admin:
            admin.config_set("requirepass", "a:b@c")
        for given, fits in ((":a%3Ab%40c@", True), ("default:a%3Ab%40c@", True), (":hidden@", False), ("", False)):
            client = SessionClient(f"redis://{given}127.0.0.1:{server.port}", deadline_s=10)
            if fits:
                await client.ping()
            else:
                with pytest.raises(Unavailable) as error:
                    await client.ping()
                assert error.value.args == ("sessions",)
            await client.aclose()
    assert "hidden" not in "".join(capfd.readouterr())


async def test_every_server_of_a_cluster_is_given_the_password(tenant):
    with RedisMasters() as cluster:
        for node in cluster.nodes:
            with node.client() as admin:
                admin.config_set("masterauth", "secret")
                admin.config_set("requirepass", "secret")
        client = SessionClient(cluster.url.replace("://", "://:secret@"), deadline_s=10)
        store = RedisSessions(client)
        await asyncio.gather(*(opened(store, scope(tenant, f"u{n}", f"s{n}")) for n in range(30)))
        await client.aclose()

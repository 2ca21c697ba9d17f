"""A checkpoint at an https endpoint whose certificate is issued by a private authority."""

import datetime
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from cleancut import Checkpoint, RequestError
from tests.unit.cut_files import CutFiles
from tests.unit.s3_server import S3Server, s3_server

_HOUR = datetime.timedelta(hours=1)


def _signed(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: str, by: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    """A certificate for this host; one whose issuer is itself is an authority."""
    now = datetime.datetime.now(datetime.UTC)

    def named(common: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])

    hosts = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)
        .not_valid_after(now + _HOUR)
        .add_extension(x509.BasicConstraints(name == issuer, None), critical=True)
        .add_extension(hosts, critical=False)
        .sign(by, hashes.SHA256())
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes the authority's certificate, and the certificate and key of its server."""
    directory = tmp_path_factory.mktemp("tls")
    ca_key, servers = (
        ec.generate_private_key(ec.SECP256R1()),
        ec.generate_private_key(ec.SECP256R1()),
    )
    (directory / "ca.pem").write_bytes(_pem(_signed("ca", ca_key, "ca", ca_key)))
    (directory / "server.pem").write_bytes(_pem(_signed("server", servers, "ca", ca_key)))
    (directory / "server.key").write_bytes(
        servers.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return directory / "ca.pem"


@pytest.fixture(scope="module")
def plain() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture
def endpoint(authority: Path, plain: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The objects of the plain server over TLS."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    files = str(authority.with_name("server.pem")), str(authority.with_name("server.key"))
    app = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, app, threaded=True, ssl_context=files)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_authority_of_aws_ca_bundle_is_trusted(
    plain: S3Server,
    endpoint: str,
    authority: Path,
    four_cuts: CutFiles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    location = plain.put("q/tls", four_cuts.objects())
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority))
    there = Checkpoint(location, endpoint=endpoint)
    assert there.cuts() == Checkpoint(four_cuts.location).cuts()


def test_another_authority_is_refused_and_the_error_names_the_variable(
    plain: S3Server, endpoint: str
) -> None:
    with pytest.raises(RequestError) as refused:
        Checkpoint("s3://checkpoints/q/tls", endpoint=endpoint).cuts()
    assert refused.value.error_id == "CLEANCUT_OBJECT_STORE_REFUSED"
    assert "AWS_CA_BUNDLE" in str(refused.value)

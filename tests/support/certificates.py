"""Self-signed certificates of servers on the loopback interface."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


def certificate(path: Path, *, host: str | None = None, issuer: str | None = None, is_expired: bool = False) -> Path:
    """Write a key and its certificate, for `host`, else for 127.0.0.1, as if `issuer` had made it; return `path`."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    # Another name than that of a good one, which may be trusted beside it.
    named = f"{host or '127.0.0.1'}{' before' if is_expired else ''}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, named)])
    address = x509.DNSName(host) if host else x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]) if issuer else name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now - _DAY if is_expired else now + _DAY)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path

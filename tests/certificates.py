"""Certificates for tests, made by the command ``openssl``."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["OPENSSL", "Authority"]

OPENSSL = shutil.which("openssl")
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    """A CA of its own.

    Args:
        folder: A folder, which is made.

    Attributes:
        file: Its certificate.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.file, self.key = folder, folder / "ca.crt", folder / "ca.key"
        subject = ("-subj", f"/CN=CA {folder.name}", "-days", "2")
        _openssl("req", "-x509", *KEY, *subject, "-keyout", self.key, "-out", self.file)

    def issue(self, name: str, *hosts: str, days: int = 2) -> tuple[Path, Path]:
        """A certificate and its key.

        Args:
            name: What the files are called.
            *hosts: ``"DNS:localhost"``, ``"IP:127.0.0.1"``: whom it is for.
            days: How long it is valid; -1: it expired yesterday.
        """
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        wish, more = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        more.write_text(f"subjectAltName={','.join(hosts)}\n" if hosts else "basicConstraints=CA:false\n")
        _openssl("req", "-new", *KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", wish)
        by = ("-CA", self.file, "-CAkey", self.key, "-CAcreateserial")
        _openssl("x509", "-req", "-in", wish, *by, *_valid(days), "-extfile", more, "-out", certificate)
        return certificate, key


def _valid(days: int) -> tuple[str, ...]:
    """The options for so many days from now. From 3.5 on OpenSSL does not take a number below 0."""
    if days >= 0:
        return ("-days", str(days))
    version = subprocess.run([str(OPENSSL), "version"], capture_output=True, text=True, check=True).stdout
    if tuple(map(int, version.split()[1].split(".")[:2])) < (3, 4):
        return ("-days", str(days))
    return ("-not_before", "20200101000000Z", "-not_after", "20200102000000Z")


def _openssl(*words: object) -> None:
    done = subprocess.run([str(OPENSSL), *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

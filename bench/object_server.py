"""nginx with as much of S3's interface as reading needs. Each answer waits for a while.

It serves the files of a folder as the objects of one bucket, and does not examine signatures. nginx takes
little of the processor's time. Its module for Lua waits.

    apt-get install nginx-light libnginx-mod-http-lua

    with bucket_of(Path("train/"), wait_s=0.02) as url:
        os.environ["AWS_ENDPOINT_URL"] = url
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

__all__ = ["BUCKET", "bucket_of", "why_not"]

BUCKET = "bench"
MODULES = Path("/usr/lib/nginx/modules")
NEEDED = ("ndk_http_module.so", "ngx_http_lua_module.so")

CONFIGURATION = """
{modules}
user root;
daemon off;
worker_processes 1;
pid {scratch}/pid;
error_log {scratch}/errors;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {scratch}/body;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000000;
    types {{ }}
    server {{
        listen 127.0.0.1:{port};
        access_by_lua_block {{ ngx.sleep({wait_s}) }}
        location /{bucket}/ {{ alias {folder}/; }}
        location ~ ^/{bucket}/?$ {{ default_type application/xml; root {scratch}; try_files /listed =404; }}
    }}
}}
"""

LISTED = (
    "<Contents><Key>{}</Key><ETag>&quot;{}&quot;</ETag><Size>{}</Size>"
    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
)


def why_not() -> str | None:
    """Why there can be no such server here; None: there can."""
    if shutil.which("nginx") is None or not all((MODULES / name).exists() for name in NEEDED):
        return "apt-get install nginx-light libnginx-mod-http-lua"
    return None


def _listed(folder: Path) -> str:
    """The answer to a request for a list: all files, with the etags that nginx gives them."""
    rows = []
    for path in sorted(one for one in folder.rglob("*") if one.is_file()):
        about = path.stat()
        etag = f"{int(about.st_mtime):x}-{about.st_size:x}"
        rows.append(LISTED.format(escape(path.relative_to(folder).as_posix()), etag, about.st_size))
    return f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"


@contextlib.contextmanager
def bucket_of(folder: Path, wait_s: float) -> Iterator[str]:
    """The URL of a server that has the folder's files in a bucket called :data:`BUCKET`."""
    with tempfile.TemporaryDirectory(prefix="seneca-bench-") as name, socket.socket() as free:
        scratch = Path(name)
        scratch.chmod(0o755)
        (scratch / "listed").write_text(_listed(folder))
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        values = {"scratch": scratch, "port": port, "wait_s": wait_s, "bucket": BUCKET}
        values["folder"] = folder.resolve()
        values["modules"] = "\n".join(f"load_module {MODULES / name};" for name in NEEDED)
        (scratch / "configuration").write_text(CONFIGURATION.format(**values))
        line = ["nginx", "-c", str(scratch / "configuration"), "-p", str(scratch)]
        process = subprocess.Popen([*line, "-e", str(scratch / "errors")])
        try:
            _await(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def _await(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the server listens."""
    while process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nginx has ended with {process.returncode}")

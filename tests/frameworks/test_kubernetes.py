"""The manifests that ``seneca remote serve --print k8s`` prints, held against Kubernetes's own schemas."""

import json
import subprocess
import sys

import pytest

kubernetes_validate = pytest.importorskip(
    "kubernetes_validate", reason="kubernetes-validate is not here; `make test-frameworks` installs it"
)


def manifests(*options):
    line = [sys.executable, "-m", "seneca.cli", "remote", "serve", "--memory", "8GiB", "--print", "k8s"]
    text = subprocess.run([*line, *options], capture_output=True, text=True, check=True).stdout
    plain = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))
    return [json.loads(document) for document in plain.split("---\n")]


@pytest.mark.parametrize("options", [(), ("--tls-cert", "my.crt", "--tls-key", "my.key")])
def test_they_are_as_the_schemas_want_them(options):
    for document in manifests(*options):
        kubernetes_validate.validate(document, "1.31", strict=True)


def test_a_wrong_one_is_seen():
    servers = manifests()[2]
    servers["spec"]["replica"] = servers["spec"].pop("replicas")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(servers, "1.31", strict=True)

"""Manifests, held against Kubernetes's own schemas: what ``seneca remote serve --print k8s`` prints, and what
docs/clusters.md shows, as far as it has Kubernetes's own parts.
"""

import json
import subprocess
import sys

import pages
import pytest

from seneca._runtime.remote_servers import parse_remote

kubernetes_validate = pytest.importorskip(
    "kubernetes_validate", reason="kubernetes-validate is not here; `make test-frameworks` installs it"
)
yaml = pytest.importorskip("yaml")


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


PAGE = pages.ROOT / "docs" / "clusters.md"
SHOWN = {
    block.heading: yaml.safe_load(block.text)
    for block in pages.blocks(PAGE)
    if block.text.startswith("apiVersion")
}


def pods_of(manifest):
    """The templates of pods in a manifest that Kubernetes itself has no schema of."""
    if manifest["kind"] == "JobSet":
        return [one["template"]["spec"]["template"] for one in manifest["spec"]["replicatedJobs"]]
    return [one["template"] for one in manifest["spec"]["pytorchReplicaSpecs"].values()]


def test_both_kinds_of_runs_are_shown():
    assert {manifest["kind"] for manifest in SHOWN.values()} == {"JobSet", "PyTorchJob"}


@pytest.mark.parametrize("kind", SHOWN)
def test_pods_that_train_are_as_the_schemas_want_them(kind):
    for template in pods_of(SHOWN[kind]):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "some"}, **template}
        kubernetes_validate.validate(pod, "1.31", strict=True)
    for job in SHOWN[kind]["spec"].get("replicatedJobs", ()):
        whole = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "some"}, **job["template"]}
        kubernetes_validate.validate(whole, "1.31", strict=True)


@pytest.mark.parametrize("kind", SHOWN)
def test_pods_that_train_name_the_servers_that_are_printed(kind):
    secret, service, servers = manifests()
    name = servers["metadata"]["name"]
    hosts = [f"{name}-{n}.{service['metadata']['name']}" for n in range(servers["spec"]["replicas"])]
    assert servers["spec"]["serviceName"] == service["metadata"]["name"]
    for template in pods_of(SHOWN[kind]):
        for container in template["spec"]["containers"]:
            variables = {one["name"]: one for one in container["env"]}
            found = parse_remote(variables["SENECA_REMOTE"]["value"].replace("//", "//:secret@"))
            assert [(one.host, one.port) for one in found] == [
                (host, service["spec"]["ports"][0]["port"]) for host in hosts
            ]
            reference = variables["SENECA_REMOTE_PASSWORD"]["valueFrom"]["secretKeyRef"]
            assert (
                reference["name"] == secret["metadata"]["name"] and reference["key"] in secret["stringData"]
            )
            assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
        (shm,) = (one for one in template["spec"]["volumes"] if one["name"] == "shm")
        assert shm["emptyDir"]["medium"] == "Memory"


def test_names_of_a_job_set_are_those_that_its_pods_get():
    manifest = SHOWN["JobSet"]
    (job,) = manifest["spec"]["replicatedJobs"]
    spec = job["template"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    set_ = manifest["metadata"]["name"]
    assert f"--rdzv-endpoint={set_}-{job['name']}-0-0.{set_}:29500" in container["args"]
    assert f"--nnodes={spec['parallelism']}" in container["args"]
    assert spec["completions"] == spec["parallelism"] and spec["completionMode"] == "Indexed"


def test_the_containers_of_a_pytorch_job_have_the_name_that_kubeflow_looks_for():
    manifest = SHOWN["Kubeflow"]
    names = [[one["name"] for one in template["spec"]["containers"]] for template in pods_of(manifest)]
    assert names == [["pytorch"], ["pytorch"]] and manifest["spec"]["nprocPerNode"] == "8"
    assert manifest["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] == 1

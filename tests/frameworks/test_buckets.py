"""Buckets and web servers: moto's S3 through s3fs, a web server of this test's, nginx. Batches are the
folder's."""

import gc
import io
import os
import pickle
import shutil
import subprocess
import tarfile
import threading

import pytest

pytest.importorskip("s3fs", reason="s3fs is not here; `make test-frameworks` installs it")
pytest.importorskip("moto", reason="moto is not here; `make test-frameworks` installs it")

import boto3
import torch
from object_servers import Faults, s3_server, web_server

import seneca
from seneca import transforms as T
from seneca.data.sources import buckets, stores

CROP = T.Compose([T.RandomResizedCrop(32), T.Normalize(T.IMAGENET_MEAN, T.IMAGENET_STD)])
SECRET = "a-secret-of-this-test"
BUCKET, URL = "pictures", "s3://pictures/train/"


@pytest.fixture(autouse=True)
def own_stores(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stores, "_stores", {})
    monkeypatch.setattr(buckets, "PAUSES_S", (0.0, 0.01, 0.02))
    gc.collect()


@pytest.fixture(scope="module")
def pictures(imagenet_sample, tmp_path_factory):
    """A folder of 60 of the pictures: moto copies an archive for each range of it."""
    folder = tmp_path_factory.mktemp("some") / "pictures"
    for path in sorted(imagenet_sample.rglob("*.*"))[:60]:
        (folder / path.parent.name).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / path.parent.name)
    return folder


@pytest.fixture
def faults():
    return Faults()


@pytest.fixture(params=["s3fs", "obstore", "libcurl"])
def reader(request, monkeypatch):
    """What fetches: either package, or libcurl with what ``obstore`` signs."""
    if request.param == "s3fs":
        monkeypatch.setattr(stores, "BY_OBSTORE", ())
    else:
        pytest.importorskip("obstore")
    if request.param == "obstore":
        monkeypatch.setattr(stores, "BY_SIGNED_URLS", ())
    return request.param


@pytest.fixture
def s3(reader, monkeypatch, faults, pictures):
    """A client of a server with the pictures below a prefix, and in a tar archive."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    with s3_server(faults) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        for path in pictures.rglob("*.*"):
            key = f"train/{path.relative_to(pictures).as_posix()}"
            client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        client.put_object(Bucket=BUCKET, Key="all.tar", Body=packed(pictures))
        faults.asked.clear()
        yield client
        gc.collect()


def packed(folder):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(folder, "root")
    return data.getvalue()


def loader_of(dataset, **options):
    options = {"batch_size": 8, "num_workers": 2, "shuffle": True, "cache": None} | options
    return seneca.DataLoader(dataset, **options, generator=torch.Generator().manual_seed(3))


def batches(dataset, **options):
    return [(images.clone(), labels.clone()) for images, labels in loader_of(dataset, **options)]


def assert_equal(some, others):
    assert len(some) == len(others)
    for one, other in zip(some, others, strict=True):
        assert torch.equal(one[0], other[0]) and torch.equal(one[1], other[1])


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("source", [URL, "s3://pictures/all.tar"])
def test_batches_are_those_of_the_folder(s3, pictures, source, workers):
    folder, found = seneca.open(pictures, CROP), seneca.open(source, CROP)
    assert (found.classes, found.targets) == (folder.classes, folder.targets)
    assert_equal(batches(found, num_workers=workers), batches(folder, num_workers=workers))


@pytest.mark.parametrize("reader", ["libcurl"], indirect=True)
@pytest.mark.parametrize("source", [URL, "s3://pictures/all.tar"])
def test_libcurl_needs_no_help(s3, reader, pictures, source, monkeypatch):
    found = seneca.open(source, CROP)
    monkeypatch.delattr(stores._Obstore, "get")
    monkeypatch.delattr(stores.Store, "get")
    assert_equal(batches(found), batches(seneca.open(pictures, CROP)))


@pytest.fixture
def web(pictures, tmp_path, faults):
    """The URL of an archive on a web server."""
    (tmp_path / "all.tar").write_bytes(packed(pictures))
    with web_server(tmp_path, faults) as url:
        yield f"{url}/all.tar"
        gc.collect()


@pytest.fixture
def nginx(pictures, tmp_path):
    """The same on nginx."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not here")
    (tmp_path / "all.tar").write_bytes(packed(pictures))
    os.chmod(tmp_path, 0o755)
    with web_server(tmp_path, Faults()) as url:  # a port that is free
        port = int(url.rpartition(":")[2])
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/nginx.pid; error_log stderr; user root;\nevents {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}/body; server {{\n"
        f"  listen 127.0.0.1:{port}; root {tmp_path}; }} }}\n"
    )
    process = subprocess.Popen(["nginx", "-c", str(tmp_path / "nginx.conf"), "-p", str(tmp_path)])
    yield f"http://127.0.0.1:{port}/all.tar"
    process.terminate()
    process.wait()


@pytest.mark.parametrize("server", ["web", "nginx"])
def test_an_archive_by_its_url(request, pictures, server, monkeypatch):
    monkeypatch.setattr(buckets, "PAUSES_S", (0.5, 0.5, 0.5))  # nginx is about to listen
    found = seneca.open(request.getfixturevalue(server), CROP)
    assert_equal(batches(found), batches(seneca.open(pictures, CROP)))


def test_a_tar_that_is_exchanged_on_a_web_server_is_named(web, tmp_path):
    found = seneca.open(web, CROP)
    data = (tmp_path / "all.tar").read_bytes()
    (tmp_path / "all.tar").write_bytes(data[:-1] + b"\1")
    with pytest.raises(OSError, match="has changed since it was opened") as error:
        found.read(0)
    assert error.value.filename == web


def test_two_jobs_share_one_cache(s3, faults, segment_folder):
    """The second has each sample once in an epoch too, and fetches none. Now and then
    a copy is compared with its object."""
    options = {"cache": "auto", "cache_bytes": "256MB", "share": "decoded", "split": "100-0-0"}
    jobs = [loader_of(seneca.open(URL, CROP), job=job, **options) for job in ("one", "other")]
    seen = [torch.cat([labels for _, labels in job]) for job in jobs for _ in range(2)]
    assert len({tuple(sorted(labels.tolist())) for labels in seen}) == 1
    fetched = {path: n for path, n in faults.asked.items() if path.endswith((".jpg", ".JPEG"))}
    checked = sum(job.stats()["checked"] for job in jobs)
    assert len(fetched) == len(seen[0]) and sum(fetched.values()) == len(seen[0]) + checked


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        (
            403,
            PermissionError,
            r"may not be read by this process \(403\); give it credentials, as s3fs searches",
        ),
        (404, FileNotFoundError, r"is not there \(404\)"),
        (503, OSError, "could not be fetched in 4 tries: 503"),
        ("cut", OSError, "could not be fetched in 4 tries: "),
    ],
)
def test_what_fails_is_named_with_its_object(s3, faults, fault, kind, says):
    dataset = seneca.open(URL, CROP)
    url = dataset.samples[9][0]
    faults.add(url.removeprefix("s3://"), fault)
    with pytest.raises(kind, match=says) as error:
        batches(dataset)
    assert error.value.filename == url


@pytest.mark.parametrize("fault", [503, "cut"])
def test_what_passes_is_not_reported(s3, reader, faults, pictures, fault):
    dataset = seneca.open(URL, CROP)
    url = dataset.samples[9][0]
    faults.add(url.removeprefix("s3://"), fault, times=3)
    assert_equal(batches(dataset), batches(seneca.open(pictures, CROP)))
    assert faults.asked[url.removeprefix("s3:/")] == 4  # libcurl's one try is the first of them


def test_a_prefix_that_may_not_be_listed_is_named(s3, faults):
    faults.add(f"/{BUCKET}", 403)
    with pytest.raises(PermissionError, match="may not be read by this process"):
        seneca.open(URL)


@pytest.mark.parametrize("source", [URL, "s3://pictures/all.tar"])
def test_an_object_that_changes_in_an_epoch_is_named(s3, source):
    dataset = seneca.open(source, CROP)
    epoch = iter(loader_of(dataset, shuffle=False))
    next(epoch)
    changed = dataset.listing.containers[-1]
    s3.put_object(Bucket=BUCKET, Key=changed.removeprefix(f"s3://{BUCKET}/"), Body=bytes(5_000_000))
    with pytest.raises(OSError, match="has changed since it was opened") as error:
        list(epoch)
    assert error.value.filename.startswith(changed)


def test_closing_in_an_epoch_leaves_no_thread(s3):
    epoch = iter(loader_of(seneca.open(URL, CROP)))
    next(epoch)
    del epoch
    gc.collect()
    assert not [thread for thread in threading.enumerate() if thread.name == "seneca-fetch"]


def test_a_server_that_hangs_holds_up_no_closing(s3, faults):
    """It answers once the test has ended."""
    dataset, came = seneca.open(URL, CROP), []
    faults.add("", "hang")
    epoch = iter(loader_of(dataset))
    consumer = threading.Thread(target=lambda: came.append(next(epoch, None)))
    consumer.start()
    for _ in range(8):
        assert faults.hanging.acquire(timeout=60)
    epoch._close()
    consumer.join()
    assert came == [None]
    faults.released.set()  # a request of obstore's ends when it is answered, or late
    for thread in threading.enumerate():
        if thread.name == "seneca-fetch":
            thread.join()


def test_nothing_secret_is_pickled_or_kept(s3, tmp_path):
    dataset = seneca.open("s3://pictures/all.tar", CROP)
    batches(dataset)
    assert SECRET.encode() not in pickle.dumps(dataset)
    for path in (tmp_path / "cache").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_worker_processes_have_connections_of_their_own(s3, pictures, segment_folder, context):
    """After this process has used its own."""
    dataset = seneca.open(URL, in_python)
    assert dataset.read(0) == seneca.open(pictures).read(0)
    options = {"cache": "auto", "cache_bytes": "256MB", "multiprocessing_context": context}
    found = torch.cat([sizes for sizes, _ in loader_of(dataset, **options)])
    theirs = torch.cat([sizes for sizes, _ in loader_of(seneca.open(pictures, in_python), num_workers=0)])
    assert sorted(map(tuple, found.tolist())) == sorted(map(tuple, theirs.tolist()))


def in_python(picture):
    return torch.tensor(picture.size)


def test_a_profile_measures_the_bucket(s3):
    found = seneca.profile(seneca.open(URL, CROP), fresh=True, cache_bytes="64MB")
    assert found.storage_cold and found.storage[0].latency_s > 0


def test_another_host_s_memory_is_asked_before_the_bucket(s3, faults, tmp_path, pictures):
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not here")
    path = tmp_path / "redis"
    server = subprocess.Popen(
        ["redis-server", "--port", "0", "--unixsocket", str(path), "--save", "", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    try:
        until = threading.Event()
        while not path.exists():
            until.wait(0.01)
        dataset = seneca.open(URL, CROP)
        whole = batches(seneca.open(pictures, CROP))
        assert_equal(batches(dataset, remote=f"unix://{path}"), whole)
        first = sum(faults.asked.values())
        assert_equal(batches(dataset, remote=f"unix://{path}"), whole)
        assert sum(faults.asked.values()) - first < len(dataset) / 10, "nearly all came from the other host"
    finally:
        server.terminate()
        server.wait()

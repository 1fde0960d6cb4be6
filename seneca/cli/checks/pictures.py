"""Checks of the libraries for pictures: those in the core, Pillow and torchvision."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys

from seneca._runtime.packages import distribution_of
from seneca.cli.checks.finding import Finding, ok, problem, unknown, warning
from seneca.cli.checks.host import Host

__all__ = ["formats", "libjpeg", "pillow", "torchvision"]

LIBRARY = re.compile(r"(/\S*/libjpeg[-.\w]*\.so[.\d]*)$", re.MULTILINE)
SWITCH = "JSIMD_FORCENONE"  # which the library with vector code reads, and the one without does not

IMPORTS = (
    "import torch; print(torch.__version__, flush=True); import torchvision; print(torchvision.__version__)"
)
PATIENCE_S = 120.0  # for two imports
BUILDS = "https://download.pytorch.org/whl"  # an index for each build of torch, named as its version ends

# Debian's, of the headers.
PACKAGES = {
    "libpng": "libpng-dev",
    "libwebp": "libwebp-dev",
    "libdeflate": "libdeflate-dev",
    "libsndfile": "libsndfile1-dev",
}


def libjpeg(host: Host) -> Finding:
    """Whether the libjpeg-turbo that the core has loaded uses vector instructions."""
    from seneca._core.codec import libjpeg_turbo

    compiled = f"compiled with {libjpeg_turbo()}"
    # Pillow may have brought a library of its own.
    loaded = [
        name for name in LIBRARY.findall(host.read("/proc/self/maps") or "") if "pillow" not in name.lower()
    ]
    if not loaded:
        return unknown(f"{compiled}; the kernel does not say which library is loaded")
    found = f"{loaded[0]}, {compiled}"
    if SWITCH.encode() not in host.path(loaded[0]).read_bytes():
        return warning(
            f"{found}, has no vector instructions: decoding takes several times as long",
            "sudo apt-get install --reinstall libjpeg62-turbo  # on Ubuntu libjpeg-turbo8",
        )
    if os.environ.get(SWITCH) == "1":
        return warning(f"{SWITCH}=1: {found}, uses no vector instructions", f"unset {SWITCH}")
    return ok(f"{found}, with vector instructions")


def formats(host: Host) -> Finding:
    """Whether the core decodes PNGs, WebPs and sounds itself, and PNGs as fast as it can."""
    from seneca._core.codec import libdeflate, libpng, libwebp
    from seneca._core.sound import libsndfile

    versions = {
        "libpng": libpng(),
        "libwebp": libwebp(),
        "libdeflate": libdeflate(),
        "libsndfile": libsndfile(),
    }
    missing = [name for name, version in versions.items() if version is None]
    if not missing:
        return ok(", ".join(f"{name} {version}" for name, version in versions.items()))
    formats = {"libpng": "PNGs", "libwebp": "WebPs"}
    by_pillow = " and ".join(formats[name] for name in missing if name in formats)
    effects = [f"Pillow decodes {by_pillow}, in one thread"] * bool(by_pillow)
    effects += ["Python's soundfile decodes sounds, in one thread"] * ("libsndfile" in missing)
    if "libdeflate" in missing and "libpng" not in missing:
        effects.append("PNGs take half as long again")
    return warning(
        f"the core was compiled without {' and '.join(missing)}: {'; '.join(effects)}",
        f"sudo apt-get install {' '.join(PACKAGES[name] for name in missing)}, and compile Seneca again",
    )


def pillow(host: Host) -> Finding:
    """Whether there is one Pillow, which works. It decodes what is neither JPEG, PNG nor WebP."""
    installed = {
        name.lower().replace("_", "-"): importlib.metadata.version(name) for name in distribution_of("PIL")
    }
    names = " and ".join(f"{name} {version}" for name, version in sorted(installed.items()))
    anew = "pip uninstall -y pillow pillow-simd && pip install --force-reinstall pillow"
    try:
        works = importlib.import_module("PIL.Image").__name__
    except ImportError as error:
        if not installed:
            return problem("there is no Pillow: only JPEGs can be read", "pip install pillow")
        return problem(f"{names} cannot be imported: {error}", anew)
    if len(installed) > 1:
        return warning(f"{names} are installed over each other: either may break when one is updated", anew)
    return ok(names or f"{works}, installed by no package")


def torchvision(host: Host) -> Finding:
    """Whether torchvision, if it is installed, loads: each of its wheels is for one build of torch."""
    if importlib.util.find_spec("torchvision") is None:
        return ok("it is not installed, and Seneca does not need it")
    # In a process of its own: importing both takes seconds and memory, and a wrong build may end the process.
    try:
        ran = subprocess.run(
            [sys.executable, "-c", IMPORTS],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return unknown(f"torch and torchvision were not imported within {PATIENCE_S:.0f} s")
    versions = ran.stdout.split()
    if ran.returncode == 0:
        return ok(f"torchvision {versions[-1]} loads beside torch {versions[0]}")
    lines = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    why = lines[-1] if lines else f"the process ended with {ran.returncode}"
    if not versions:
        return problem(f"torch cannot be imported: {why}", "pip install --force-reinstall torch")
    build = versions[0].partition("+")[2]
    index = f" --index-url {BUILDS}/{build}" if build else ""
    own = importlib.metadata.version("torchvision")
    return problem(
        f"torchvision {own} does not load beside torch {versions[0]}: {why}",
        f"pip install --force-reinstall torch torchvision{index}  # both of one build",
    )

"""Builds the native core: csrc/ as one static library, seneca/_core/*.pyx on top of it.

Everything that describes the distribution is in pyproject.toml; this file only compiles.
"""

import contextlib
import glob
import os
import platform
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from setuptools import Extension, setup
from setuptools.command.build_clib import build_clib
from setuptools.command.build_ext import build_ext

NATIVE = sys.platform.startswith("linux")  # elsewhere Seneca is plain torch, with no native core

# -O3 on the platform's baseline: what needs newer instructions chooses them at run time.
# Nothing is fused on the sly: the same bits on every machine, and where Pillow is met, Pillow's.
CFLAGS = ["-O3", "-std=gnu11", "-ffp-contract=off", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wshadow"]
CFLAGS += os.environ.get("SENECA_CFLAGS", "").split()
LDFLAGS = os.environ.get("SENECA_LDFLAGS", "").split()
MODULES = ["codes", "rng", "files", "op", "plan", "codec", "segment", "telemetry", "snapshot"]
HEADERS = sorted(glob.glob("csrc/**/*.h", recursive=True) + glob.glob("csrc/**/*.def", recursive=True))
AT_A_TIME = len(os.sched_getaffinity(0)) if NATIVE else 1  # compilers
MODULES += ["participant", "member", "worker", "remote", "pool", "fetches", "undecoded", "early", "digests"]
MODULES += ["batch", "sound"]


def require_libjpeg():
    """Stop with the package to install instead of a page of compiler errors."""
    with tempfile.TemporaryDirectory() as folder:
        probe = os.path.join(folder, "probe.c")
        with open(probe, "w") as file:
            file.write(
                "#include <stdio.h>\n#include <jpeglib.h>\n#ifndef LIBJPEG_TURBO_VERSION\n#error\n#endif\n"
            )
        compiler = os.environ.get("CC", "cc").split()
        try:
            found = subprocess.run([*compiler, "-fsyntax-only", probe], capture_output=True).returncode == 0
        except FileNotFoundError:
            sys.exit(f"seneca: no C compiler ({compiler[0]}). Install one: apt-get install gcc")
    if not found:
        sys.exit(
            "seneca: the headers of libjpeg-turbo are missing. Install them: "
            "libjpeg62-turbo-dev (Debian), libjpeg-turbo8-dev (Ubuntu), libjpeg-turbo-devel (Fedora)"
        )


def has(header):
    """Whether this header is there.

    Without libpng or libwebp Pillow decodes PNGs or WebPs. Without libdeflate PNGs take longer.
    Without libsndfile Python decodes sounds.
    """
    compiler = os.environ.get("CC", "cc").split()
    with contextlib.suppress(FileNotFoundError):
        probe = subprocess.run([*compiler, "-E", "-include", header, "-xc", os.devnull], capture_output=True)
        return probe.returncode == 0
    return False


class BuildLibrary(build_clib):
    def run(self):
        require_libjpeg()
        super().run()

    def build_libraries(self, libraries):
        compile_some = self.compiler.compile

        def compile_all(sources, **options):
            with ThreadPoolExecutor(AT_A_TIME) as threads:
                found = threads.map(lambda source: compile_some([source], **options), sources)
                return [each for objects in found for each in objects]

        self.compiler.compile = compile_all
        super().build_libraries(libraries)


class BuildExtensions(build_ext):
    def finalize_options(self):
        super().finalize_options()
        self.parallel = self.parallel or AT_A_TIME

    def run(self):
        # `pip install -e` and `build_ext --inplace` do not build the library by themselves.
        self.run_command("build_clib")
        super().run()


def extensions(libraries):
    from Cython.Build import cythonize

    return cythonize(
        [
            Extension(
                f"seneca._core.{name}",
                [f"seneca/_core/{name}.pyx"],
                include_dirs=["csrc"],
                # Ours first: the linker looks to the right.
                libraries=["seneca", *libraries, "pthread", "dl", "m"],
                extra_compile_args=[
                    "-O2",
                    "-fvisibility=hidden",
                    *os.environ.get("SENECA_CFLAGS", "").split(),
                ],
                extra_link_args=LDFLAGS,
                depends=HEADERS + glob.glob("csrc/**/*.c", recursive=True),
            )
            for name in MODULES
            if os.path.exists(f"seneca/_core/{name}.pyx")
        ],
        compiler_directives={
            "language_level": "3",
            "boundscheck": False,
            "wraparound": False,
            "embedsignature": True,
        },
    )


if NATIVE:
    optional = [("png", "PNG")] * has("png.h") + [("webp", "WEBP")] * has("webp/decode.h")
    optional += [("deflate", "DEFLATE")] * has("libdeflate.h") + [("sndfile", "SNDFILE")] * has("sndfile.h")
    library = {
        "sources": sorted(glob.glob("csrc/**/*.c", recursive=True)),
        "obj_deps": {"": HEADERS},
        "include_dirs": ["csrc"],
        "cflags": CFLAGS + [f"-DSN_HAVE_{name}" for _, name in optional],
    }
    setup(
        libraries=[("seneca", library)],
        ext_modules=extensions(["jpeg", *[library for library, _ in optional], *["z"] * has("png.h")]),
        cmdclass={"build_clib": BuildLibrary, "build_ext": BuildExtensions},
    )
else:
    print(
        f"seneca: {platform.system()} has no shared cache; installing the plain torch fallback.",
        file=sys.stderr,
    )
    setup()

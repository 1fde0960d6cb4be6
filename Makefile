# Everything that is typed here. `make demo` and `make test` do all of it on a fresh machine: they
# need Python 3.10 or newer, a C compiler, and the headers of libjpeg-turbo and zlib.

PYTHON ?= python3
CC ?= cc
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.dependencies
BUILT := $(VENV)/.built

# An editable install does not follow changes in C or Cython; this list does.
SOURCES := setup.py pyproject.toml $(shell find csrc -name '*.[ch]') \
           $(wildcard seneca/_core/*.pyx seneca/_core/*.pxd)
C_SOURCES := $(filter-out csrc/tests/%,$(filter %.c,$(SOURCES)))
BENCH_C_SOURCES := $(wildcard bench/native/*.c)
C_WARNINGS := -Wall -Wextra -Wshadow -Werror

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test lint bench bench-micro build clean
.DELETE_ON_ERROR:

help:                    ## what can be typed here
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(BUILT)           ## jobs that share one cache, on this machine, in a minute
	$(BIN)/seneca demo

test: $(BUILT)           ## all tests; ARGS="-k folder" for some
	$(BIN)/python -m pytest $(ARGS)

lint: $(READY)           ## ruff, mypy, and the C compiler's warnings as errors
	$(BIN)/ruff check .
	$(BIN)/mypy
	@for file in $(C_SOURCES) $(BENCH_C_SOURCES); do \
	    $(CC) -std=gnu11 -O1 $(C_WARNINGS) -Icsrc -c -o /dev/null $$file || exit 1; \
	done

bench: $(BUILT)          ## the benchmarks; bench/README.md says what they ask
	$(BIN)/python -m bench $(ARGS)

bench-micro: $(BUILT)    ## what one call of each stage of the core costs
	$(BIN)/python -m pytest bench/micro $(ARGS)

build: $(BUILT)          ## the environment and the native core, nothing run

clean:                   ## what was built; the environment stays
	rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks $(BUILT)
	rm -f seneca/_core/*.so $(patsubst %.pyx,%.c,$(wildcard seneca/_core/*.pyx))
	find seneca tests bench examples -name __pycache__ -prune -exec rm -rf {} +

# pillow-simd is compiled in an environment of pip's making, which is held to the same versions.
$(READY): export PIP_BUILD_CONSTRAINT := $(PIP_CONSTRAINT)

# Torch first and alone: what comes later finds it there and does not choose another build of it.
# torchvision last and by itself: the tests compare with it, and it asks for Pillow, which is there
# under another name.
$(READY): constraints.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet torch
	$(BIN)/python -m pip install --quiet --group dev
	$(BIN)/python -m pip install --quiet --no-deps torchvision
	@touch $@

$(BUILT): $(READY) $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

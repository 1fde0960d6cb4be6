# Everything that is typed here. `make demo` and `make test` do all of it on a fresh machine: they
# need Python 3.10 or newer, a C compiler, and the headers of libjpeg-turbo and zlib.

PYTHON ?= python3
CC ?= cc
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.dependencies
BUILT := $(VENV)/.built
PACKAGING := $(VENV)/.packaging
FRAMEWORKS := .venv-frameworks
DOCS := .venv-docs

# An editable install does not follow changes in C or Cython; this list does.
SOURCES := setup.py pyproject.toml $(shell find csrc -name '*.[ch]' -o -name '*.def') \
           $(wildcard seneca/_core/*.pyx seneca/_core/*.pxd)
C_SOURCES := $(filter %.c,$(SOURCES))
BENCH_C_SOURCES := $(wildcard bench/native/*.c)
C_WARNINGS := -Wall -Wextra -Wshadow -Werror

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# The tests begin hundreds of processes. Without bytecode in files, each would compile all of Seneca again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-frameworks test-packages test-python test-c test-arm stress planted soak asan tsan asan-py fuzz \
        fuzz-keep coverage c-tests c-deaths job-deaths format lint generated bench bench-micro docs build sdist wheel clean
.DELETE_ON_ERROR:

help:                    ## what can be typed here
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(BUILT)           ## jobs that share one cache, on this machine, in a minute
	$(BIN)/seneca demo

# Tests are independent of each other. ARGS="-n 0" runs one at a time, as a debugger needs it.
AT_A_TIME := --dist worksteal -n 2

test: $(BUILT)           ## every kind of test at a small size; ARGS="-k folder" for some
	$(BIN)/python -m pytest $(AT_A_TIME) $(ARGS)

test-all: $(BUILT)       ## all tests at their whole size
	SENECA_TEST_ALL=1 $(BIN)/python -m pytest $(AT_A_TIME) $(ARGS)

test-frameworks: $(FRAMEWORKS)/.built   ## with Lightning, accelerate, transformers, timm and datasets, in their own environment
	$(FRAMEWORKS)/bin/python -m pytest tests/frameworks $(ARGS)

test-packages: wheel     ## sdist and wheel, installed into empty environments
	SENECA_TEST_PACKAGES=$(CURDIR)/dist $(BIN)/python -m pytest tests/packages $(ARGS)

SUITE ?= trixie
test-python:             ## the tests with the Python of another Debian and the newest torch; SUITE=sid; as root
	tests/in_debian.sh $(SUITE) $(ARGS)

test-c:                  ## the tests in C, without Python; SEED=7 to repeat a run
	@$(MAKE) --no-print-directory c-tests FLAVOUR=$@ C_FLAGS="-O2"

test-arm:                ## the vector code for 64-bit ARM against plain C, and checksums, in an emulator
	@for tool in $(ARM_CC) $(ARM_RUN); do \
	    command -v $$tool >/dev/null && continue; \
	    echo "make test-arm: no $$tool here; apt-get install gcc-aarch64-linux-gnu qemu-user" >&2; \
	    exit 1; \
	done
	@mkdir -p build/test-arm
	@$(ARM_CC) -std=gnu11 -O3 -ffp-contract=off $(C_WARNINGS) -Icsrc -static \
	    -o build/test-arm/test_kernels $(KERNEL_SOURCES) -lm
	@$(ARM_RUN) build/test-arm/test_kernels $(SEED)
	@$(ARM_CC) -std=gnu11 -O3 $(C_WARNINGS) -Icsrc -static -o build/test-arm/test_hash tests/c/test_hash.c csrc/base/sn_hash.c
	@$(ARM_RUN) build/test-arm/test_hash

stress: $(BUILT)         ## processes that die everywhere, and storms of jobs: at most ten minutes
	@$(MAKE) --no-print-directory c-deaths FLAVOUR=test-c C_FLAGS="-O2" SIZES="$(DEATH_SIZES)"
	SENECA_TEST_JOB_KILLS=200 $(BIN)/python -m pytest $(AT_A_TIME) tests/stress $(ARGS)

planted: $(BUILT)        ## bugs that are planted in the core: each has to be found by its test
	SENECA_TEST_PLANTED=1 $(BIN)/python -m pytest $(AT_A_TIME) tests/stress/test_planted.py $(ARGS)

soak: $(BUILT)           ## processes that die everywhere, for MINUTES=n, with new seeds; build/soak.log has what came of it
	@end=$$(($$(date +%s) + 60 * $(MINUTES))); failed=; \
	while [ -z "$$failed" ] && [ $$(date +%s) -lt $$end ]; do \
	    seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
	    $(MAKE) --no-print-directory c-deaths job-deaths FLAVOUR=test-c C_FLAGS="-O2" SIZES="$(SOAK_SIZES)" \
	        LOG=build/soak.log SEED=$$seed || failed=yes; \
	done; \
	[ -z "$$failed" ]

asan:                    ## test-c under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory c-tests FLAVOUR=$@ C_FLAGS="$(ASAN)"

tsan:                    ## the same under ThreadSanitizer; OPERATIONS=n for jobs as threads on one mapping, for so long
	@TSAN_OPTIONS=halt_on_error=1 $(MAKE) --no-print-directory c-tests FLAVOUR=$@ C_FLAGS="$(TSAN)"

asan-py: $(READY)        ## the Python tests of codec, pool and loader as asan, in a copy
	rm -rf build/asan-py
	mkdir -p build/asan-py
	cp -Rp $(filter-out build dist %.egg-info,$(wildcard *)) build/asan-py
	rm -f build/asan-py/seneca/_core/*.so
	cd build/asan-py && SENECA_CFLAGS="$(ASAN)" SENECA_LDFLAGS="$(ASAN)" \
	    $(abspath $(BIN))/python setup.py --quiet build_ext --inplace
	cd build/asan-py && PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	    LD_PRELOAD="$(foreach name,asan ubsan,$(shell $(CC) -print-file-name=lib$(name).so))" \
	    $(abspath $(BIN))/python -m pytest -q tests/unit tests/fidelity/test_png.py tests/fidelity/test_webp.py -k "codec or pool or loader or png or webp" $(ARGS)

fuzz:                    ## coverage-guided fuzzing by clang's libFuzzer, each target for SECONDS=n; TARGETS="attach jpeg" for some
	@command -v $(CLANG) >/dev/null || { echo "make fuzz: no $(CLANG) here; apt-get install clang" >&2; exit 1; }
	@$(MAKE) --no-print-directory c-fuzz FLAVOUR=$@ CC=$(CLANG) C_FLAGS="$(FUZZ)" C_CSRC_FLAGS=-fsanitize=fuzzer-no-link C_WARNINGS=-w
	@$(PYTHON) tests/fuzz/run.py --seconds $(SECONDS) $(TARGETS)

fuzz-keep:               ## keep what `make fuzz` has found, minimised, in tests/fuzz/corpus
	@$(PYTHON) tests/fuzz/run.py --keep $(TARGETS)

coverage:                ## which lines and branches of csrc/ the tests in C run
	@mkdir -p build/coverage
	@find build/coverage -name '*.gcda' -delete
	@failed=; \
	env $(COVERAGE_SIZES) $(MAKE) --no-print-directory c-tests FLAVOUR=$@ C_FLAGS="-O0 -g -DSN_COVERAGE" \
	    C_CSRC_FLAGS=--coverage C_LIBRARIES="$(C_LIBRARIES) --coverage" || failed=yes; \
	$(PYTHON) tests/c/coverage.py build/coverage && [ -z "$$failed" ]

FORMATTED_C := $(shell find csrc tests bench -name '*.[ch]')

format: $(READY)         ## write Python and C as ruff and clang-format do
	$(BIN)/ruff format .
	@$(BIN)/clang-format -i $(FORMATTED_C)

lint: $(READY)           ## formats, ruff, mypy, the workflows, and the C compiler's warnings as errors
	$(BIN)/ruff format --check .
	@$(BIN)/clang-format --dry-run --Werror $(FORMATTED_C)
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/zizmor --offline --persona pedantic --quiet .github/workflows
	@for file in $(C_SOURCES) $(BENCH_C_SOURCES); do \
	    $(CC) -std=gnu11 -O1 $(C_FORMATS) $(C_WARNINGS) -Icsrc -c -o /dev/null $$file || exit 1; \
	done

generated: $(BUILT)      ## what is written from the records of options and operations, and the public signatures
	$(BIN)/python tests/option_faces.py
	$(BIN)/python tests/operations_page.py
	$(BIN)/python tests/public_surface.py

bench: $(BUILT)          ## the benchmarks; bench/README.md says what they ask
	$(BIN)/python -m bench $(ARGS)

bench-micro: $(BUILT)    ## what one call of each stage of the core costs
	$(BIN)/python -m pytest bench/micro $(ARGS)

# -W: warnings are errors. -E: every page is read anew, therefore every warning is seen.
docs: $(DOCS)/.built     ## the pages as a site, build/docs/index.html, in an environment of its own
	$(DOCS)/bin/python -m sphinx -W --keep-going -E -q -b html -c docs . build/docs

build: $(BUILT)          ## the environment and the native core, nothing run

sdist: $(PACKAGING)      ## dist/*.tar.gz: the sources, which pip compiles
	rm -f dist/*.tar.gz
	$(BIN)/python -m build --no-isolation --sdist --outdir dist . >/dev/null

# From the sdist, therefore a file that the sdist lacks is missed. auditwheel copies libjpeg-turbo, libpng, libwebp,
# libdeflate and libsndfile into it.
wheel: sdist             ## dist/*.whl: compiled, with its own libraries of pictures and sounds
	rm -rf build/wheel dist/*.whl
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel dist/*.tar.gz
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/auditwheel repair --strip --wheel-dir dist build/wheel/*.whl

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

$(PACKAGING): $(READY)
	$(BIN)/python -m pip install --quiet --group packaging
	@touch $@

# Other environments, which `make test` needs nothing of: the packages alone, with torch, Seneca and
# pytest out of the first.
define on_top_of_the_first
$(PYTHON) -m venv $(@D)
@site=$$(echo $(@D)/lib/python*/site-packages); \
echo "import site; site.addsitedir('$(CURDIR)/$(VENV)/$${site#$(@D)/}')" > $$site/first.pth
$(@D)/bin/python -m pip install --quiet --upgrade pip
endef

$(FRAMEWORKS)/.built: export PIP_CONSTRAINT := $(CURDIR)/constraints-frameworks.txt
$(FRAMEWORKS)/.built: $(BUILT) constraints-frameworks.txt
	$(on_top_of_the_first)
	$(@D)/bin/python -m pip install --quiet --group frameworks
	@touch $@

$(DOCS)/.built: export PIP_CONSTRAINT := $(CURDIR)/constraints-docs.txt
$(DOCS)/.built: $(BUILT) constraints-docs.txt
	$(on_top_of_the_first)
	$(@D)/bin/python -m pip install --quiet --group docs
	@touch $@

# The tests in C, built in build/$(FLAVOUR): each tests/c/test_*.c is a program, and what else lies
# there is linked to all of them. -Wno-tsan: the fences of sn_lock_enter() stand beside the kernel's
# lock, which tests/c/tsan.c declares to the sanitizer.
ASAN := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
# Clang does not say so itself, and would write null and alignment as edges, of which libFuzzer knows nothing to learn.
FUZZ := -D__SANITIZE_ADDRESS__ -O2 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=null,alignment -fno-sanitize-recover=all
TSAN := -O1 -g -fno-omit-frame-pointer -fsanitize=thread -Wno-tsan

# Where the header of a format is missing, Pillow decodes it, or soundfile; without that of libdeflate libpng inflates.
has = $(shell $(CC) -E -include $(1) -xc /dev/null >/dev/null 2>&1 && echo yes)
HAS_PNG := $(call has,png.h)
HAS_WEBP := $(call has,webp/decode.h)
HAS_DEFLATE := $(call has,libdeflate.h)
HAS_SNDFILE := $(call has,sndfile.h)
C_FORMATS := $(HAS_PNG:yes=-DSN_HAVE_PNG) $(HAS_WEBP:yes=-DSN_HAVE_WEBP) $(HAS_DEFLATE:yes=-DSN_HAVE_DEFLATE) \
             $(HAS_SNDFILE:yes=-DSN_HAVE_SNDFILE)
C_LIBRARIES := -ljpeg $(if $(HAS_PNG:no=),-lpng -lz) $(HAS_WEBP:yes=-lwebp) $(HAS_DEFLATE:yes=-ldeflate) \
               $(HAS_SNDFILE:yes=-lsndfile) -lpthread -ldl -lm -lrt

C_FOLDER := build/$(FLAVOUR)
# Those whose children do the work: ThreadSanitizer keeps state that a child without its threads cannot have.
DEATHS := test_crash test_crash_points test_kills test_flipped_words test_failing_calls test_small_shm test_liveness
C_TESTS := $(patsubst tests/c/%.c,$(C_FOLDER)/%,$(filter-out $(if $(filter tsan,$(FLAVOUR)),$(DEATHS:%=tests/c/%.c)), \
             $(wildcard tests/c/test_*.c)))
C_SHARED := $(filter-out tests/c/test_%,$(C_SOURCES) $(wildcard tests/c/*.c))

# What test_kernels needs of csrc/, which is all that is compiled for another machine.
KERNEL_SOURCES := tests/c/test_kernels.c csrc/base/sn_rng.c \
                  $(wildcard csrc/codec/kernels/*.c) \
                  $(foreach name,resize batch colour blur warp grid erase,csrc/codec/operations/$(name).c)
ARM_CC ?= aarch64-linux-gnu-gcc
ARM_RUN ?= qemu-aarch64

# Plain C as well, where the processor would do with vectors.
# All are run, whichever fails.
c-tests: $(C_TESTS)
	@failed=; \
	for test in $(C_TESTS); do $$test $(SEED) || failed="$$failed $$(basename $$test)"; done; \
	SENECA_SIMD=none $(C_FOLDER)/test_codec $(SEED) || failed="$$failed test_codec (SENECA_SIMD=none)"; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

# Each tests/fuzz/fuzz_*.c is a program, and what else lies there is linked to all of them. Only csrc/ says which of its edges
# an input has come to.
CLANG ?= clang
SECONDS ?= 30
FUZZ_SHARED := $(filter-out tests/fuzz/fuzz_%,$(wildcard tests/fuzz/*.c))
c-fuzz: $(patsubst tests/fuzz/%.c,$(C_FOLDER)/%,$(wildcard tests/fuzz/fuzz_*.c))

# Each reads its size from its environment, and so does test_threads, which a sanitizer can watch. DEATH_SIZES are enough
# for each to come to everything that it tests. A line for each goes to LOG.
DEATH_SIZES ?= PAIRS=all STATES=20000 KILLS=2000 FLIPS=1000 ERRORS=all RUNS=1000 TRIALS=10000
SOAK_SIZES ?= PAIRS=2000 STATES=20000 KILLS=5000 FLIPS=500 ERRORS=all RUNS=5000 TRIALS=20000
COVERAGE_SIZES ?= PAIRS=300 STATES=1500 KILLS=200 FLIPS=200 ERRORS=all RUNS=100 TRIALS=500
MINUTES ?= 10
LOG ?= /dev/null
c-deaths: $(DEATHS:%=$(C_FOLDER)/%)
	@failed=; commit=$$(git describe --always --dirty 2>/dev/null); \
	for test in $(DEATHS); do \
	    result=passed; \
	    said=$$(env $(SIZES) $(C_FOLDER)/$$test $(SEED) 2>&1) || { result=FAILED; failed="$$failed $$test"; }; \
	    echo "$$said"; \
	    echo "$$(date -u +%FT%TZ) commit $$commit, $$result: $$(echo "$$said" | tr '\n' ' ')" >> $(LOG); \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

# Jobs of Python that are killed and go on from their checkpoints.
JOB_KILLS ?= 500
job-deaths: $(BUILT)
	@result=passed; commit=$$(git describe --always --dirty 2>/dev/null); \
	said=$$(SENECA_TEST_JOB_KILLS=$(JOB_KILLS) SENECA_TEST_SEED=$(SEED) $(BIN)/python -m pytest -q -s \
	    tests/stress/test_killed_jobs.py 2>&1) || { result=FAILED; echo "$$said" >&2; }; \
	echo "$$(date -u +%FT%TZ) commit $$commit, $$result: $$(echo "$$said" | grep -o '[^.]*SENECA_TEST_SEED=[0-9]*\|.* kills in .*' | \
	    tr '\n' ' ')" | tee -a $(LOG); \
	[ $$result = passed ]

$(C_FOLDER)/test_%: $(C_FOLDER)/tests/c/test_%.o $(C_SHARED:%.c=$(C_FOLDER)/%.o)
	@$(CC) $(C_FLAGS) -o $@ $^ $(C_LIBRARIES)

$(C_FOLDER)/fuzz_%: $(C_FOLDER)/tests/fuzz/fuzz_%.o $(FUZZ_SHARED:%.c=$(C_FOLDER)/%.o) $(C_SHARED:%.c=$(C_FOLDER)/%.o)
	@$(CC) $(C_FLAGS) -fsanitize=fuzzer -o $@ $^ $(C_LIBRARIES)

$(C_FOLDER)/%.o: %.c Makefile
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 $(C_FLAGS) $(if $(filter csrc/%,$<),$(C_CSRC_FLAGS)) $(C_FORMATS) -DSN_CRASH_POINTS -ffp-contract=off \
	    $(C_WARNINGS) -Icsrc $(if $(filter tests/fuzz/%,$<),-Itests/c) -MMD -MP -c -o $@ $<

.SECONDARY:
-include $(wildcard $(C_FOLDER)/*/*/*.d $(C_FOLDER)/*/*/*/*.d)

$(BUILT): $(READY) $(SOURCES)
	$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

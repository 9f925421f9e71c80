# make builds. make test and make demo first install what they need. make help lists the other targets.
SHELL := /bin/bash -o pipefail
CMAKE ?= cmake
# Removes MAKEFLAGS, through which make shares its job slots with child processes: some versions of ninja fail to read
# it.
BUILD_PRESET = env -u MAKEFLAGS $(CMAKE) --build --preset
PYTHON := .venv/bin/python
BUILD := build/release

FOLDERS := $(wildcard include src cli tests bench examples bindings compat)
CXX_FILES = $(shell find $(FOLDERS) -name '*.h' -o -name '*.cc' -o -name '*.c')
PYTEST = env PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) -m pytest tests -q -raR -o cache_dir=build/pytest_cache
# gcc's thread sanitizer fails on kernels with a high level of address randomisation.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.DEFAULT_GOAL := build
.PHONY: build build-without-mpi benches configured all-tests setup demo check test test-full sanitize sanitize-short fuzz fuzz-fast test-chaos bench-tables bench-messages bench-snapshots bench-nn bench-nn-scale bench-spatial bench-data bench-lua bench-python bench-singa show-singa stubs messages wheel cli-pages docs screenshots install-lua lint format format-check layout prose clean help

build: ## build into build/release (the default)
	@[ -f $(BUILD)/build.ninja ] || $(CMAKE) --preset release
	$(BUILD_PRESET) release

setup: ## install the packages that building, testing and the demo need
	@tools/setup.sh lint frameworks theano

demo: ## set up, build, and train on Fashion-MNIST in several processes: a table, a net, PyTorch, Lua, SINGA, a split image
	@tools/demo.sh

# Many cases wait for processes, so twice as many cases run at once as there are cores.
JOBS := $(shell echo $$((2 * $$(nproc))))
REPORTS := build/reports

# Runs $(1) and, at the same time, the Python suites with the arguments $(2). Continues if one of them fails, and prints
# the counts at the end. PyTorch's threads must not spin, because there are more threads than cores. The output of the
# Python suites is kept in a log until the end.
define run_suites
@mkdir -p $(REPORTS); code=0; \
echo "the Python suites run at the same time as the next parts; their output: $(REPORTS)/pytest.log"; \
OMP_WAIT_POLICY=passive tools/timed.sh "Python suites, beside the next parts" $(PYTEST) -n $(JOBS) --dist worksteal --junitxml=$(REPORTS)/pytest.xml $(2) \
  >$(REPORTS)/pytest.log 2>&1 & python=$$!; \
$(1) || code=1; \
wait $$python || code=1; \
cat $(REPORTS)/pytest.log; \
tools/durations.py || code=1; \
echo "tests: ctest: $$(grep -E 'tests passed|No tests' $(REPORTS)/ctest.log || echo did not finish);" \
     "pytest: $$(tail -n 1 $(REPORTS)/pytest.log)"; \
exit $$code
endef
# $(1): arguments for ctest.
CTEST = tools/timed.sh "C++ suites" ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS) \
  --output-junit $(CURDIR)/$(REPORTS)/ctest.xml $(1) 2>&1 | tee $(REPORTS)/ctest.log | $(SHORT)
SANITIZE = tools/timed.sh "sanitizers" $(MAKE) --no-print-directory
# ctest's lines about passed cases are only in the log.
SHORT := grep -Ev --line-buffered '(^ *Start +[0-9]+: |   Passed +[0-9.]+ sec)'

check: ## format, layout and the quick suites, without frameworks: under 3 minutes after a build
	@rm -rf $(REPORTS)
	@tools/timed.sh "set-up" tools/setup.sh lint
	@tools/timed.sh "build" $(MAKE) --no-print-directory all-tests
	@tools/timed.sh "format and layout" $(MAKE) --no-print-directory format-check layout
	$(call run_suites,$(call CTEST,-LE 'full|slow'),-m 'quick and not full')

# A case that fails is run once more and named. More than two such cases fail the run. test-full runs no case twice.
test: ## set up, build, check and run the tests, except those that take long
	@rm -rf $(REPORTS)
	@tools/timed.sh "set-up" tools/setup.sh lint
	@tools/timed.sh "build, with the frameworks' set-up beside it" $(MAKE) -j 2 --no-print-directory setup configured
	@tools/timed.sh "format and layout" $(MAKE) --no-print-directory format-check layout
	$(call run_suites,$(SANITIZE) sanitize-short || code=1; $(call CTEST,-LE 'full|sanitized' -E NOT_BUILT --repeat until-pass:2),-m 'not full' --reruns 1)

test-full: ## all tests, all sanitizers and the linter
	@rm -rf $(REPORTS)
	@tools/timed.sh "set-up" tools/setup.sh lint frameworks theano slurm wheel chroot types docs
	@tools/timed.sh "build" $(MAKE) --no-print-directory all-tests benches
	@tools/timed.sh "lint" $(MAKE) --no-print-directory lint
	@tools/timed.sh "build without MPI" $(MAKE) --no-print-directory build-without-mpi
	$(call run_suites,$(SANITIZE) sanitize || code=1; $(call CTEST,),)

build-without-mpi: ## build the libraries, the commands and the Python modules with PLEIAD_MPI=OFF, and run jobs with them
	@mkdir -p build; $(CMAKE) --preset no-mpi >build/configure.log || { cat build/configure.log; exit 1; }
	$(BUILD_PRESET) no-mpi --target pleiad_cli pleiad_tools multiverso pleiad_python pleiad_python_nn pleiad_python_job process
	env PLEIAD_BUILD=$(CURDIR)/build/no-mpi $(PYTHON) -m pytest tests/without_mpi.py -q -raR -o cache_dir=build/pytest_cache

# Configures again, because the set-up may have installed more libraries, and builds.
configured:
	@mkdir -p build; $(CMAKE) --preset release >build/configure.log || { cat build/configure.log; exit 1; }
	$(BUILD_PRESET) release

# The default build omits the test programs that `make test` runs under the address sanitizer only.
all-tests: configured
	$(BUILD_PRESET) release --target all_tests

# One command per line. Three run at once, because their ranks usually wait for each other. `make sanitize` runs every
# case.
define SANITIZED
tools/cases.py asan_conformance build/asan/bin/conformance --gtest_brief=1 --gtest_filter=Inproc3*:Inproc2on2*-*MoreCallsThanTheLedgerHolds
tools/cases.py asan_files build/asan/bin/files --gtest_brief=1
$(TSAN) tools/cases.py tsan_hosts $(FIXED_ADDRESSES) build/tsan/bin/conformance --gtest_brief=1 --gtest_filter=Inproc2on2_Clock*:Inproc2on2_Table*:Inproc2on2_Litmus*-*MoreCallsThanTheLedgerHolds
tools/cases.py tsan_worlds $(FIXED_ADDRESSES) build/tsan/bin/conformance --gtest_brief=1 --gtest_filter=Inproc2_*
tools/cases.py asan_base_test build/asan/bin/base_test --gtest_brief=1
tools/cases.py asan_fuzz build/asan/bin/fuzz_file --gtest_brief=1
tools/cases.py asan_data build/asan/bin/data --gtest_brief=1
tools/cases.py asan_loader build/asan/bin/loader --gtest_brief=1
tools/cases.py tsan_loader $(FIXED_ADDRESSES) build/tsan/bin/loader --gtest_brief=1 --gtest_filter=Loader*:*Threads*
endef
TSAN := TSAN_OPTIONS="ignore_noninstrumented_modules=1 detect_deadlocks=0"
export SANITIZED

sanitize-short: ## the conformance suites and the readers of files under the sanitizers
	@[ -f build/asan/build.ninja ] || $(CMAKE) --preset asan >build/configure.log || { cat build/configure.log; exit 1; }
	@[ -f build/tsan/build.ninja ] || $(CMAKE) --preset tsan >build/configure.log || { cat build/configure.log; exit 1; }
	$(BUILD_PRESET) asan --target conformance base_test files data loader fuzz_file
	$(BUILD_PRESET) tsan --target conformance loader
	@printenv SANITIZED | xargs -d '\n' -P 3 -n 1 bash -c

sanitize: ## all C++ tests under the sanitizers, with threads as ranks and without MPI, which has leaks and races of its own
	@[ -f build/asan/build.ninja ] || $(CMAKE) --preset asan
	$(BUILD_PRESET) asan
	ctest --test-dir build/asan --output-on-failure --no-tests=error -j 2
	@[ -f build/tsan/build.ninja ] || $(CMAKE) --preset tsan
	$(BUILD_PRESET) tsan
	$(TSAN) $(FIXED_ADDRESSES) \
	  ctest --test-dir build/tsan --output-on-failure --no-tests=error -j 2

benches: build ## build the benchmark programs
	$(BUILD_PRESET) release --target benches

# FUZZ_SECONDS is the time for each of the 23 targets. If FUZZ_RUNS is not 0, it is the number of inputs for all targets
# together.
FUZZ_SECONDS ?= 600
FUZZ_RUNS ?= 0
FUZZ_JOBS ?= 1
define run_fuzzer
@tools/setup.sh fuzz
@[ -f build/$@/build.ninja ] || $(CMAKE) --preset $@ >build/configure.log || { cat build/configure.log; exit 1; }
$(BUILD_PRESET) $@ --target fuzz_file fuzz_job
@tools/fuzz.py --seconds $(FUZZ_SECONDS) --runs $(FUZZ_RUNS) --jobs $(FUZZ_JOBS) --build build/$@
endef
fuzz: ## fuzz every parser with libFuzzer: FUZZ_SECONDS=600 for each target, or FUZZ_RUNS=100000000 in total
	$(run_fuzzer)

fuzz-fast: ## the same with assertions instead of the address sanitizer: several times as many inputs in a second
	$(run_fuzzer)

CHAOS_FAULTS ?= 1000
CHAOS_ADDS ?= 1000000
test-chaos: ## run jobs on several hosts under CHAOS_FAULTS=1000 faults; takes up to an hour; needs root
	@tools/setup.sh base
	@$(MAKE) --no-print-directory configured
	@$(PYTHON) tests/chaos.py --build $(BUILD) --faults $(CHAOS_FAULTS) --adds $(CHAOS_ADDS)

bench-tables: ## measure the tables and the all-reduce: one JSON line each
	@tools/setup.sh frameworks
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/tables.py

bench-messages: ## measure tables on other hosts, over loopback: one JSON line each
	@tools/setup.sh base
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/messages.py

bench-snapshots: ## measure the cost of periodic snapshots: one JSON line
	@tools/setup.sh base
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/snapshots.py

bench-nn: ## compare training with PyTorch and JAX: one JSON line each
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory benches
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/nn.py

bench-nn-scale: ## compare training on two processes with one, and memory with PyTorch's
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/nn_scale.py

bench-spatial: ## compare training with images split over processes with one process and with PyTorch on gloo
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/spatial.py

bench-data: ## compare the loader with a bare loop: one JSON line each
	@tools/setup.sh base
	@$(MAKE) --no-print-directory benches
	@$(BUILD)/bin/bench_data

bench-lua: ## compare add and get from LuaJIT with C++: one JSON line each
	@tools/setup.sh base
	@$(MAKE) --no-print-directory benches
	@PLEIAD_LIBRARY= LUA_PATH="$(BUILD)/lua/?.lua;$(BUILD)/lua/?/init.lua" \
	  luajit bench/lua.lua $(CURDIR)/$(BUILD)/lib/libbench_cpp_peer.so

bench-python: ## compare add and get from Python with C++: one JSON line each
	@tools/setup.sh frameworks
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) bench/python.py
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/python_torch.py

show-singa: build ## train the scripts of SINGA's document and draw their results (out/singa_show)
	PYTHONPATH=$(BUILD)/python $(PYTHON) examples/singa/show.py out/singa_show

bench-singa: ## measure SINGA's cluster modes, a step and the start of a job: one JSON line each
	@tools/setup.sh base
	@$(MAKE) --no-print-directory build
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) bench/singa.py

stubs: build ## rewrite the type stubs of the extension modules
	for module in _core _nn _job; do PYTHONPATH=$(BUILD)/python $(PYTHON) -m nanobind.stubgen -q -m pleiad.$$module \
	  -o bindings/python/pleiad/$$module.pyi || exit 1; done
	@.venv/bin/ruff format -q bindings/python/pleiad/_core.pyi bindings/python/pleiad/_nn.pyi bindings/python/pleiad/_job.pyi

messages: ## rewrite tests/messages, the list of all messages, from the sources
	@python3 tools/messages.py --write

cli-pages: build ## make docs/cli.md, the man page and the completions from the commands' help; then build again
	@$(PYTHON) tools/cli_pages.py --build $(BUILD)

docs: ## build the documentation as a site into build/docs
	@tools/setup.sh docs
	@$(PYTHON) tools/site/build.py

screenshots: docs ## take pictures of the site's pages, wide and narrow, into build/screenshots
	@tools/setup.sh docs screenshots
	@$(PYTHON) tools/site/screenshots.py build/docs build/screenshots

wheel: ## make a self-contained wheel in dist, for the Python of .venv
	@tools/setup.sh wheel
	@$(PYTHON) tools/wheel.py

PREFIX ?= /usr/local
install-lua: build ## install the libraries and the Lua module under PREFIX (/usr/local)
	$(CMAKE) --install $(BUILD) --prefix $(PREFIX)
	$(CMAKE) --install $(BUILD) --prefix $(PREFIX) --component lua

lint: format-check layout prose ## check the format, the layout, the prose, and the C++ sources with clang-tidy
	@[ -f build/dev/build.ninja ] || $(CMAKE) --preset dev
	$(BUILD_PRESET) dev --target pleiad multiverso pleiad_nn pleiad_job pleiad_mpi pleiad_cli pleiad_tools
	@tools/tidy.py build/dev src cli

format: ## format the C++ and Python sources
	@clang-format-19 -i $(CXX_FILES)
	@.venv/bin/ruff format -q .

format-check:
	@clang-format-19 --dry-run --Werror $(CXX_FILES)
	@.venv/bin/ruff format -q --check . && .venv/bin/ruff check -q .

layout:
	@python3 tools/check_layout.py

prose: ## check spelling and wording of comments, messages and pages (tools/prose.txt)
	@$(PYTHON) tools/prose.py

clean: ## remove all build results; the Python environments stay
	rm -rf build out

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

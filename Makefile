# make builds; make test and make demo install first what they need. make help lists the rest.
SHELL := /bin/bash -o pipefail
CMAKE ?= cmake
# Without the variable by which make tells its own children how many jobs may run: some versions of ninja fail to read it.
BUILD_PRESET = env -u MAKEFLAGS $(CMAKE) --build --preset
PYTHON := .venv/bin/python
BUILD := build/release

FOLDERS := $(wildcard include src cli tests bench examples bindings compat)
CXX_FILES = $(shell find $(FOLDERS) -name '*.h' -o -name '*.cc' -o -name '*.c')
PYTEST = env PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) -m pytest tests -q -raR -o cache_dir=build/pytest_cache
# Kernels that randomise addresses widely and gcc's thread sanitizer do not get on.
FIXED_ADDRESSES := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.DEFAULT_GOAL := build
.PHONY: build benches configured all-tests setup demo check test test-full sanitize sanitize-short fuzz test-chaos bench-tables bench-messages bench-snapshots bench-nn bench-nn-scale bench-spatial bench-data bench-lua bench-python bench-singa show-singa stubs messages install-lua lint format format-check layout clean help

build: ## build into build/release (the default)
	@[ -f $(BUILD)/build.ninja ] || $(CMAKE) --preset release
	$(BUILD_PRESET) release

setup: ## install what building, testing and the demo need
	@tools/setup.sh lint frameworks theano

demo: ## set up, build, and train on Fashion-MNIST in several processes: a table, a net, PyTorch, Lua, SINGA, a split image
	@tools/demo.sh

# Many cases wait for processes, so twice as many run at once as there are cores.
JOBS := $(shell echo $$((2 * $$(nproc))))
REPORTS := build/reports

# Runs $(1) and, beside it, the Python suites; goes on if one of them fails, and ends in the counts. $(2): for pytest. PyTorch's threads
# must not spin, since there are more of them than cores. The Python suites wait most of the time, so their output stays in a log until
# the end.
define run_suites
@mkdir -p $(REPORTS); code=0; \
echo "the Python suites run beside what follows; their output: $(REPORTS)/pytest.log"; \
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
# $(1): for ctest.
CTEST = tools/timed.sh "C++ suites" ctest --test-dir $(BUILD) --output-on-failure --no-tests=error -j $(JOBS) \
  --output-junit $(CURDIR)/$(REPORTS)/ctest.xml $(1) 2>&1 | tee $(REPORTS)/ctest.log | $(SHORT)
SANITIZE = tools/timed.sh "sanitizers" $(MAKE) --no-print-directory
# ctest's lines about cases that passed stay in the log.
SHORT := grep -Ev --line-buffered '(^ *Start +[0-9]+: |   Passed +[0-9.]+ sec)'

check: ## format, layout and the quick suites, without frameworks: under 3 minutes after a build
	@rm -rf $(REPORTS)
	@tools/timed.sh "set-up" tools/setup.sh lint
	@tools/timed.sh "build" $(MAKE) --no-print-directory all-tests
	@tools/timed.sh "format and layout" $(MAKE) --no-print-directory format-check layout
	$(call run_suites,$(call CTEST,-LE 'full|slow'),-m 'quick and not full')

# A case that fails runs once more and is named; more than two such cases fail the run. In test-full none runs twice.
test: ## set up, build, check and test all but what takes long
	@rm -rf $(REPORTS)
	@tools/timed.sh "set-up" tools/setup.sh lint
	@tools/timed.sh "build, with the frameworks' set-up beside it" $(MAKE) -j 2 --no-print-directory setup configured
	@tools/timed.sh "format and layout" $(MAKE) --no-print-directory format-check layout
	$(call run_suites,$(SANITIZE) sanitize-short || code=1; $(call CTEST,-LE 'full|sanitized' -E NOT_BUILT --repeat until-pass:2),-m 'not full' --reruns 1)

test-full: ## test, and all that takes long: sanitizers over everything, the linter
	@rm -rf $(REPORTS)
	@tools/timed.sh "set-up" tools/setup.sh lint frameworks theano slurm
	@tools/timed.sh "build" $(MAKE) --no-print-directory all-tests benches
	@tools/timed.sh "lint" $(MAKE) --no-print-directory lint
	$(call run_suites,$(SANITIZE) sanitize || code=1; $(call CTEST,),)

# Configures anew, since set-up may have installed more, and builds.
configured:
	@mkdir -p build; $(CMAKE) --preset release >build/configure.log || { cat build/configure.log; exit 1; }
	$(BUILD_PRESET) release

# The default build leaves out the test programs that `make test` runs under the address sanitizer only.
all-tests: configured
	$(BUILD_PRESET) release --target all_tests

# A line each; three run at once, since their ranks wait for each other most of the time. `make sanitize` runs every case.
define SANITIZED
tools/cases.py asan_conformance build/asan/bin/conformance --gtest_brief=1 --gtest_filter=Inproc3*:Inproc2on2*-*MoreCallsThanTheLedgerHolds
tools/cases.py asan_files build/asan/bin/files --gtest_brief=1
$(TSAN) tools/cases.py tsan_hosts $(FIXED_ADDRESSES) build/tsan/bin/conformance --gtest_brief=1 --gtest_filter=Inproc2on2_Clock*:Inproc2on2_Table*:Inproc2on2_Litmus*-*MoreCallsThanTheLedgerHolds
tools/cases.py tsan_worlds $(FIXED_ADDRESSES) build/tsan/bin/conformance --gtest_brief=1 --gtest_filter=Inproc2_*
tools/cases.py asan_unit build/asan/bin/unit --gtest_brief=1
tools/cases.py asan_fuzz build/asan/bin/fuzz_file --gtest_brief=1
tools/cases.py asan_data build/asan/bin/data --gtest_brief=1
tools/cases.py asan_loader build/asan/bin/loader --gtest_brief=1
tools/cases.py tsan_loader $(FIXED_ADDRESSES) build/tsan/bin/loader --gtest_brief=1 --gtest_filter=Loader*:*Threads*
endef
TSAN := TSAN_OPTIONS="ignore_noninstrumented_modules=1 detect_deadlocks=0"
export SANITIZED

sanitize-short: ## the conformance suites, and what reads files, under the sanitizers
	@[ -f build/asan/build.ninja ] || $(CMAKE) --preset asan >build/configure.log || { cat build/configure.log; exit 1; }
	@[ -f build/tsan/build.ninja ] || $(CMAKE) --preset tsan >build/configure.log || { cat build/configure.log; exit 1; }
	$(BUILD_PRESET) asan --target conformance unit files data loader fuzz_file
	$(BUILD_PRESET) tsan --target conformance loader
	@printenv SANITIZED | xargs -d '\n' -P 3 -n 1 bash -c

sanitize: ## all C++ tests under the sanitizers, on ranks that are threads: MPI, which leaks and races by itself, is not there
	@[ -f build/asan/build.ninja ] || $(CMAKE) --preset asan
	$(BUILD_PRESET) asan
	ctest --test-dir build/asan --output-on-failure --no-tests=error -j 2
	@[ -f build/tsan/build.ninja ] || $(CMAKE) --preset tsan
	$(BUILD_PRESET) tsan
	$(TSAN) $(FIXED_ADDRESSES) \
	  ctest --test-dir build/tsan --output-on-failure --no-tests=error -j 2

benches: build ## build the benchmarks' programs
	$(BUILD_PRESET) release --target benches

# FUZZ_SECONDS is the time of each of the 23 targets. FUZZ_RUNS, unless it is 0, is the number of inputs of all together.
FUZZ_SECONDS ?= 600
FUZZ_RUNS ?= 0
FUZZ_JOBS ?= 1
fuzz: ## fuzz every parser with libFuzzer: FUZZ_SECONDS=600 for each target, or FUZZ_RUNS=100000000 in total
	@tools/setup.sh fuzz
	@[ -f build/fuzz/build.ninja ] || $(CMAKE) --preset fuzz >build/configure.log || { cat build/configure.log; exit 1; }
	$(BUILD_PRESET) fuzz --target fuzz_file fuzz_job
	@tools/fuzz.py --seconds $(FUZZ_SECONDS) --runs $(FUZZ_RUNS) --jobs $(FUZZ_JOBS)

CHAOS_FAULTS ?= 1000
CHAOS_ADDS ?= 1000000
test-chaos: ## jobs on several hosts under CHAOS_FAULTS=1000 faults; at most an hour; needs root
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

bench-snapshots: ## measure what periodic snapshots cost the workers: one JSON line
	@tools/setup.sh base
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/snapshots.py

bench-nn: ## measure training against PyTorch and JAX: one JSON line each
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory benches
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/nn.py

bench-nn-scale: ## measure training on two processes against one, and memory against PyTorch's
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/nn_scale.py

bench-spatial: ## measure training with images cut over processes, against one process and PyTorch with gloo
	@tools/setup.sh bench
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) bench/spatial.py

bench-data: ## measure the loader against a bare loop: one JSON line each
	@tools/setup.sh base
	@$(MAKE) --no-print-directory benches
	@$(BUILD)/bin/bench_data

bench-lua: ## measure add and get from LuaJIT against C++: one JSON line each
	@tools/setup.sh base
	@$(MAKE) --no-print-directory benches
	@PLEIAD_LIBRARY= LUA_PATH="$(BUILD)/lua/?.lua;$(BUILD)/lua/?/init.lua" \
	  luajit bench/lua.lua $(CURDIR)/$(BUILD)/lib/libbench_cpp_peer.so

bench-python: ## measure add and get from Python against C++: one JSON line each
	@tools/setup.sh frameworks
	@$(MAKE) --no-print-directory benches
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) bench/python.py
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/python_torch.py

show-singa: build ## train the scripts of SINGA's document, and draw what they learn (out/singa_show)
	PYTHONPATH=$(BUILD)/python $(PYTHON) examples/singa/show.py out/singa_show

bench-singa: ## measure SINGA's clusters, a step and the start of a job: one JSON line each
	@tools/setup.sh base
	@$(MAKE) --no-print-directory build
	@PLEIAD_BUILD=$(CURDIR)/$(BUILD) PYTHONPATH=$(BUILD)/python $(PYTHON) bench/singa.py

stubs: build ## write the type stubs of the extension modules anew
	for module in _core _nn _job; do PYTHONPATH=$(BUILD)/python $(PYTHON) -m nanobind.stubgen -q -m pleiad.$$module \
	  -o bindings/python/pleiad/$$module.pyi || exit 1; done
	@.venv/bin/ruff format -q bindings/python/pleiad/_core.pyi bindings/python/pleiad/_nn.pyi bindings/python/pleiad/_job.pyi

messages: ## rewrite tests/messages, the list of all messages, from the sources
	@python3 tools/messages.py --write

PREFIX ?= /usr/local
install-lua: build ## install the libraries and the Lua module under PREFIX (/usr/local)
	$(CMAKE) --install $(BUILD) --prefix $(PREFIX)
	$(CMAKE) --install $(BUILD) --prefix $(PREFIX) --component lua

lint: format-check layout ## check the format, the layout, and the C++ sources by clang-tidy
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

clean: ## remove what was built; the Python environments stay
	rm -rf build out

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

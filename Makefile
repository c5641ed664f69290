# `make demo` and `make test` work on a fresh clone: the first one tried sets everything up.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed
NATIVE := CMakeLists.txt $(shell find native -type f)

export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

# Everything ends. In the foreground, so that Ctrl-C is heard.
LIMITED := timeout --foreground --kill-after=60

.PHONY: setup demo test lint format bench check-accuracy clean

setup: $(INSTALLED)

# Torch goes first and capped, so that no other package can ask for a newer one.
$(INSTALLED): pyproject.toml constraints.txt $(NATIVE)
	$(BIN)/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	$(LIMITED) 60m $(BIN)/python -m pip install --quiet "torch>=2.6,<2.14"
	$(LIMITED) 60m $(BIN)/python -m pip install --quiet --editable ".[torch,dev]"
	touch $@

demo: setup
	sh examples/demo.sh $(BIN)/sparcl

test: setup
	$(LIMITED) --signal=INT 30m $(BIN)/python -m pytest --numprocesses auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror $(filter %.h %.cpp %.inc,$(NATIVE))

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(filter %.h %.cpp %.inc,$(NATIVE))

# What our loop adds to a step. The other speed claims are commands in docs/performance.md, and take longer.
bench: setup
	$(BIN)/python -m benchmarks.step_overhead

# Tells a broken learner from a good one; needs CIFAR-10 (`sparcl data get cifar10`).
check-accuracy: setup
	$(BIN)/python -m benchmarks.check_accuracy

# What was trained (runs/) stays.
clean:
	rm -rf .venv build

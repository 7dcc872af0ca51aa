# `make demo` and `make test` set up everything they need by themselves; `make` alone lists the targets.
ROOT := $(CURDIR)/
BIN := $(ROOT).venv/bin
IN_ROOT := cd "$(ROOT)" &&
# Two test runs at once, each with a Spark session of its own: on two cores most tests wait more than they compute.
SIDE_BY_SIDE := -n 2 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint fmt bench pins clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' "$(ROOT)Makefile" | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

setup: ## Virtual environment, pinned packages, Java if there is none, Delta's jars
	@"$(ROOT)tools/setup.sh"

demo: setup ## Run the example pipelines
	@$(IN_ROOT) "$(BIN)/python" examples/blog/demo.py
	@$(IN_ROOT) "$(BIN)/python" examples/visits/demo.py
	@$(IN_ROOT) "$(BIN)/python" examples/shop/demo.py

test: lint ## Lint and test
	@$(IN_ROOT) "$(BIN)/python" -m pytest $(SIDE_BY_SIDE) -m "not long"

test-all: lint ## Lint and test, with the long repetitions
	@$(IN_ROOT) "$(BIN)/python" -m pytest $(SIDE_BY_SIDE)

lint: setup ## Style, types, and who may import whom
	@$(IN_ROOT) "$(BIN)/ruff" check .
	@$(IN_ROOT) "$(BIN)/ruff" format --check .
	@$(IN_ROOT) "$(BIN)/mypy"
	@$(IN_ROOT) "$(BIN)/lint-imports" --no-logo

fmt: setup ## Format the code and fix what can be fixed
	@$(IN_ROOT) "$(BIN)/ruff" check --fix .
	@$(IN_ROOT) "$(BIN)/ruff" format .

bench: setup ## Measure against other systems (up to half an hour)
	@$(IN_ROOT) "$(BIN)/python" -m bench

pins: setup ## Write the versions that are installed to requirements/all.txt
	@$(IN_ROOT) tools/pins.sh

clean: ## Remove the virtual environment and everything that was built
	@$(IN_ROOT) rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	@$(IN_ROOT) find src tests bench examples tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

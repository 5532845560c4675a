# Every target works on a machine with Python 3.11+, git and make, and sets up .venv if needed.

ifndef PYTHON
PYTHON := $(shell for python in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	if $$python -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; \
	then echo $$python; break; fi; done)
endif

BIN := .venv/bin
# Number of test processes: WORKERS=4 make test. Tests wait for processes and timers a third of the time, so `make test`
# has one process more than there are cores. Each process of `make e2e` has a control plane of its own.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
test: WORKERS ?= $(shell expr $(CORES) + 1)
e2e e2e-next e2e-older: WORKERS ?= 2
# Additional arguments for pytest, such as ARGS="-k spread".
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo newcomer up test lint docs docs-screenshots screenshots golden bench constraints audit sbom clean
.PHONY: setup-run setup-docs setup-dev setup-release python

help:  ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: setup-run  ## Start an embedded cluster, schedule an example workload, show the placements and the reasons.
	@$(BIN)/python scripts/demo.py

up: setup-run  ## Start an embedded cluster with a scheduler, and keep it running; ARGS="--nodes 20" and so on.
	@$(BIN)/mooring up $(ARGS)

newcomer: setup-dev  ## Create, edit and run a plugin as a new user would, make mistakes, and print durations and messages.
	@$(BIN)/python scripts/newcomer.py $(ARGS)

test: setup-dev  ## Run all tests, including golden decisions, sessions and configurations.
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(ARGS) tests examples

lint: setup-dev  ## Check style, types and package dependencies.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

docs: setup-docs  ## Build the documentation site in build/site; open build/site/index.html. A broken link is an error.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs --quiet build --clean
	@echo "built build/site/index.html"

docs-screenshots: docs  ## Open the site in Chromium at 1280 and 390 pixels, check it, and take the screenshots in docs/images.
	@$(BIN)/python scripts/site_screenshots.py $(ARGS)

screenshots: setup-dev  ## Take the screenshots of the dashboard in docs/images, in Chromium.
	@$(BIN)/python -m tests.dashboard.screenshots

golden: setup-dev  ## Compare with recorded answers of kube-scheduler and Volcano, and count the matches by theme.
	@$(BIN)/python -m tests.golden.run

bench: setup-dev  ## Measure decisions per second by workload, cluster size and kind of plugin.
	@$(BIN)/python -m bench
	@$(BIN)/python -m bench.plugins

constraints:  ## Pin all dependencies in constraints.txt, with hashes; ARGS=--upgrade selects the newest versions.
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/python -m pip --quiet --disable-pip-version-check install uv
	@build/uv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --all-extras \
		--group dev --group release --no-header --quiet $(ARGS) --output-file constraints.txt

audit: setup-release  ## Look for known vulnerabilities of the pinned dependencies; needs the database on the network.
	@$(BIN)/python scripts/audit.py

sbom: setup-release  ## Build the wheel in dist, and its bill of materials (CycloneDX).
	@$(BIN)/python scripts/sbom.py dist

clean:  ## Remove the environment and all generated files.
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup-run: python
	@$(PYTHON) scripts/setup_env.py run

setup-release: python
	@$(PYTHON) scripts/setup_env.py release

setup-docs: python
	@$(PYTHON) scripts/setup_env.py docs

setup-dev: python
	@$(PYTHON) scripts/setup_env.py dev

python:
	@test -n "$(PYTHON)" || { \
		echo "Mooring needs Python 3.11 or later with the venv module; none was found. Set PYTHON=/path/to/python3."; \
		exit 1; }

# These targets use a real control plane. Go builds it once, outside the checkout.
# K8S=1.37.1 selects another version of Kubernetes than the main one: K8S=1.37.1 make e2e.
.PHONY: controlplane e2e e2e-next e2e-older bench-live bench-batch bench-compare

controlplane: setup-dev  ## Build etcd, kube-apiserver and the other components from Go modules (once, about 15 minutes).
	@$(BIN)/python -m tests.e2e.controlplane build

e2e: controlplane  ## Run the tests on a real control plane.
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS) tests/e2e

NEXT := K8S=1.37.1
e2e-next: setup-dev  ## Run the tests about decisions, metrics and flags on the newest release (builds two programs, 6 minutes).
	@$(NEXT) $(BIN)/python -m tests.e2e.controlplane build kubectl etcd kube-apiserver kube-scheduler
	@$(NEXT) MOORING_DIFFERENTIAL=0:12 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS) \
		tests/e2e/test_emulation.py tests/e2e/test_flags.py tests/e2e/test_metrics_live.py tests/e2e/test_differential.py \
		tests/e2e/test_device_gates.py tests/e2e/test_device_taint_rules.py tests/e2e/test_pod_groups.py \
		tests/e2e/test_integrations.py::test_kuberay_with_native_groups

OLDER := tests/e2e/test_older_servers.py tests/e2e/test_community.py tests/e2e/test_preemption_live.py
e2e-older: setup-dev  ## Run Mooring on an older API server: make e2e-older K8S=1.33.13 (builds one program, 8 minutes).
	@K8S=$(K8S) $(BIN)/python -m tests.e2e.controlplane build kubectl etcd kube-apiserver
	@K8S=$(K8S) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS) $(OLDER)

bench-live: setup-dev  ## Measure binds per second, startup and latency next to kube-scheduler on a real control plane.
	@$(BIN)/python -m bench.live

bench-batch: setup-dev  ## Measure batch sessions of gangs on a real control plane.
	@$(BIN)/python -m bench.batch
	@$(NEXT) $(BIN)/python -m bench.batch --native --pods 3000

BASE ?= HEAD~1
bench-compare: setup-dev  ## Compare the speed with another commit: make bench-compare BASE=COMMIT ARGS="--benchmark live".
	@$(BIN)/python -m bench.compare --base $(BASE) $(ARGS)

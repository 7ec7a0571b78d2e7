# Everything a contributor types. A fresh machine needs Python >= 3.11 and make; the rest is installed into .tools and .venv.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
UV_VERSION := 0.13.9
UV := .tools/bin/uv
VENV := .venv/.synced
export UV_PYTHON_DOWNLOADS := never
export UV_PYTHON ?= $(PYTHON)
export UV_PROJECT_ENVIRONMENT := .venv
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help up test faults soak e2e bench bench-rules reach verify gen fmt clean

help: ## list these targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  ARGS="…" is passed on, for example: make up ARGS="--nodes 5 --port 9000"'

up: $(VENV) ## run the whole pipeline on this machine until Ctrl-C
	@exec leadsman up $(ARGS)

test: $(VENV) ## unit, contract, integration and system tests, in JOBS (2) processes: most of them wait for something real
	@pytest -n $(or $(JOBS),2) --dist loadfile $(ARGS)

faults: $(VENV) ## break storage in every way this machine can, at the shipped settings, and time the collector (root)
	@python tests/faults/faults.py $(ARGS)

soak: $(VENV) ## then random faults for MINUTES (30): no process, thread, descriptor or memory may be left (root)
	@python tests/faults/faults.py --short --soak $(or $(MINUTES),30) $(ARGS)

e2e: $(VENV) ## scenarios against a real etcd, kube-apiserver and kube-scheduler (needs Go, or KUBE_BIN_DIR)
	@pytest tests/e2e -m e2e --timeout 300 -s $(ARGS)

bench: $(VENV) ## the same load on Leadsman and on a Go extender, ratios in one run (needs Go and a C compiler)
	@python tests/bench/run.py $(ARGS)

bench-rules: $(VENV) ## what 1, 10 and 100 policy rules cost a request, a report and a reload at 5,000 nodes
	@python tests/bench/rules.py $(ARGS)

reach: $(VENV) ## memory and CPU of a collector with 5 drivers and 20 mounts over MINUTES (10)
	@python tests/bench/reach.py --minutes $(or $(MINUTES),10) $(ARGS)

verify: $(VENV) ## every static check; lists all failures with the command that repairs each
	@python tests/verify.py $(ARGS)

gen: $(VENV) ## regenerate the code of proto/
	@python proto/gen.py

fmt: $(VENV) ## format code and apply safe fixes
	@ruff format .
	@ruff check --fix .

clean: ## remove what make created in this folder
	@rm -rf .venv .tools .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and f"Leadsman needs Python >= 3.11, this is {sys.version.split()[0]}; set PYTHON=/path/to/python3.11")'
	@$(PYTHON) -m venv .tools || { echo 'python3 -m venv failed; on Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@echo "installing uv $(UV_VERSION) into .tools"
	@.tools/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

$(VENV): $(UV) pyproject.toml uv.lock $(wildcard libs/*/pyproject.toml services/*/pyproject.toml)
	@$(UV) sync --locked --quiet || { $(UV) sync --locked; exit 1; }
	@touch $@

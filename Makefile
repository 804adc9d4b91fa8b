# Everything runs inside .venv, which is made from the lock files on first use.
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
DATA ?= ./data
BIN := .venv/bin

.PHONY: run test faults hostile check lint types imports bench profile lock clean

run: .venv/.installed
	$(BIN)/agentic-backend serve --host $(HOST) --port $(PORT) --data $(DATA)

test: .venv/.installed-dev
	$(BIN)/pytest

# All that docs/reliability.md promises, at full length, with its figures; some half an hour.
faults: .venv/.installed-dev
	FAULTS=long $(BIN)/pytest tests/faults -rP

# All that docs/security.md promises of those who mean harm, in its long form, with its figures.
hostile: .venv/.installed-dev
	HOSTILE=long $(BIN)/pytest tests/hostile -rP

check: lint types imports test

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-dev
	$(BIN)/mypy

imports: .venv/.installed-dev
	$(BIN)/lint-imports

# The product beside its limits, in one run; some ten minutes on an otherwise idle machine.
bench: .venv/.installed-dev
	cd bench && ../$(BIN)/python run.py

profile: .venv/.installed-dev
	cd bench && ../$(BIN)/python line_profile.py

# The lock files hold versions and hashes only; uv is needed to make them anew, not to use them.
lock:
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header -q --group build --group dev -o requirements-dev.lock
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header -q --group build -c requirements-dev.lock -o requirements.lock

.venv/.installed: requirements.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.lock
	$(BIN)/pip install --quiet --require-hashes --no-deps -r requirements-dev.lock
	touch $@

clean:
	rm -rf .venv

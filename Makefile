# The two commands of the README: `make demo` and `make test`. Each makes .venv when it is missing.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check format clean

demo: $(READY)
	$(BIN)/ofcl demo

test: check
	$(BIN)/pytest -n 3 --dist loadgroup  # on two cores: tests of processes wait much of their time

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Plain pip, under the versions that were tested.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing into .venv (a minute or two) …"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf .venv

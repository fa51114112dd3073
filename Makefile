# make demo [MODE=hloop|sequential|bulk-sync]   the embedded workload, into runs/demo-<mode>
# make test                                     the tests
# make check                                    formatting, lint, types, Snakemake's lint
# Each makes .venv first, from python3 >= 3.11 alone.

PYTHON ?= python3
MODE ?= hloop
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check format clean

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: hloop needs python3 >= 3.11, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[demo,test]'
	@touch $@

demo: $(VENV)/.installed
	$(BIN)/snakemake --executor hloop --hloop-mode $(MODE) --config run_dir=runs/demo-$(MODE)
	@echo
	@echo "The result is in runs/demo-$(MODE): hloop_run.json (the report), selection.json,"
	@echo "candidates/ (what the jobs made) and jobs/ (their logs and records)."
	@echo "Run another mode with   make demo MODE=bulk-sync   and compare the two with"
	@echo "$(BIN)/hloop compare --baseline runs/demo-$(MODE) --candidate runs/demo-bulk-sync"

test: $(VENV)/.installed
	$(BIN)/python -m pytest -n auto

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check workflow
	$(BIN)/snakemake --lint

format: $(VENV)/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt workflow

clean:
	rm -rf $(VENV) .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

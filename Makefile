# make demo    the embedded workload into runs/demo-<mode>; MODE=sequential, hloop or bulk-sync,
#              RUN= another run directory
# make test    the tests
# make check   formatting, lint, types, Snakemake's lint
# Each makes .venv first, from python3 >= 3.11 alone; PYTHON= another interpreter.

PYTHON ?= python3
MODE ?= hloop
RUN ?= runs/demo-$(MODE)

MODES := sequential hloop bulk-sync
OTHER_MODE := $(if $(filter hloop,$(MODE)),bulk-sync,hloop)
BIN := .venv/bin

# Every test and every job starts Python: compiled files spare each of them a tenth of a second.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-options test check format clean

demo: demo-options .venv/.installed
	$(BIN)/snakemake --executor hloop --hloop-mode $(MODE) --config run_dir=$(RUN)
	@echo
	@echo "The result is in $(RUN): hloop_run.json (the report), selection.json,"
	@echo "candidates/ (what the jobs made) and jobs/ (their logs and records)."
	@echo "Run it in another mode, and compare the two:"
	@[ -e runs/demo-$(OTHER_MODE) ] || echo "  make demo MODE=$(OTHER_MODE)"
	@echo "  $(BIN)/hloop compare --baseline $(RUN) --candidate runs/demo-$(OTHER_MODE)"

# What can be said before anything is installed.
demo-options:
	$(if $(filter $(MODE),$(MODES)),,$(error MODE is $(MODE); expected one of: $(MODES)))
	@if [ -n "$$(ls -A '$(RUN)' 2>/dev/null)" ]; then \
		echo "make: $(RUN) is already used, and a run wants a folder of its own. Try:" >&2; \
		echo "  make demo MODE=$(MODE) RUN=$(RUN)-2" >&2; \
		exit 2; \
	fi

# The tests of one file share what one of them has run.
test: .venv/.installed
	$(BIN)/python -m pytest -n auto --dist loadfile

check: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check workflow
	$(BIN)/snakemake --lint

format: .venv/.installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/snakefmt workflow

.venv/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "make: hloop needs \
	python3 >= 3.11, and $(PYTHON) is " + sys.version.split()[0] + ". Name another: PYTHON=...")'
	@echo "Installing hloop and what it needs into .venv; this takes minutes, once."
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --editable '.[demo,test]'
	@touch $@

clean:
	rm -rf .venv .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

# Two commands do everything on a fresh machine with Python 3.11, make and git: `make study` and `make test`.
PYTHON ?= python3.11
CORES ?= all
STUDY ?= config.yaml
QUOTED = $(subst $() ,\ ,$(STUDY))
BIN := .venv/bin

.PHONY: study figures test ui bench clean

study: .venv/ready
	@test -f $(QUOTED) || { echo "STUDY=$(STUDY): there is no such file" >&2; exit 2; }
	@$(BIN)/snakemake --cores $(CORES) --quiet rules --configfile $(QUOTED)

figures: .venv/ready
	@for frame in reports/*/records.parquet; do \
		$(BIN)/ssma report $$(dirname $$frame)/plan.json --out $$(dirname $$frame) || exit 1; \
	done

test: .venv/ready
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/snakefmt --check Snakefile workflow
	@$(BIN)/python -m pytest

ui: .venv/ready
	@$(BIN)/ssma ui $(QUOTED)

bench: .venv/ready
	@$(BIN)/ssma bench aggr
	@$(BIN)/ssma bench data
	@$(BIN)/ssma bench fit
	@$(BIN)/ssma bench runtime

# The scripts of an environment name its folder: of a checkout that was moved or copied it is made anew. One that does
# not say where it was made is the user's own, or older, and nothing is taken from it.
ifneq ($(shell grep . .venv/ready 2>/dev/null || pwd -P),$(CURDIR))
.PHONY: .venv/ready
CLEAR := --clear
endif

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "Python 3.11 is needed: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(CLEAR) .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[test]'
	@pwd -P > $@

# Of the set-up alone: results may have taken days.
clean:
	rm -rf .venv .snakemake
	@test ! -e results || echo 'results/ is kept, with all that was trained; to delete it: rm -r results'

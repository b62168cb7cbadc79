# Every target works on a fresh clone: the virtual environment is made on first use.  `make test PYTHON=python3.13`
# uses another interpreter, with an environment of its own.
PYTHON ?= python3
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error PYTHON=$(PYTHON) is not an interpreter that runs; Python 3.10 or newer is needed)
endif
VENV := $(if $(filter-out python3,$(PYTHON)),.venv-$(VERSION),.venv)
BIN := $(VENV)/bin
OLDEST := .venv-oldest
DOCS := .venv-docs
MODELS := .venv-models
SPARK := .venv-spark
TOOLS := .venv-tools
AUDITS := .venv-audits

.PHONY: demo demo-remote test test-hosts test-slow test-models test-spark test-all lint docs bench mutants simulate requirements
.PHONY: dist clean
.PHONY: audits audits-ciphers audits-sums audits-releases audits-attacks audits-auditorium audits-reconstruction
.PHONY: audits-fuzz audits-recorder audits-timing fuzz

# The demos need the package with plots and tables, or its transport; the tests add everything else.
$(VENV)/.demo: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[pandas,plot]'
	touch $@

$(VENV)/.remote: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[remote,plot]'
	touch $@

$(VENV)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The oldest supported LightGBM and XGBoost, beside everything else at its newest.
$(OLDEST)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --editable '.[dev]' 'lightgbm==4.2.0' 'xgboost==2.0.3'
	touch $@

# The tools that models are handed to; the project itself needs none of them.
$(MODELS)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(MODELS)
	$(MODELS)/bin/python -m pip install --quiet --editable '.[dev]' mlflow onnxmltools onnxruntime shap skops
	touch $@

# Spark, which also needs Java 17; where Java is missing, the tests say so and are skipped.
$(SPARK)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --editable '.[dev,spark]' 'pyspark[connect]>=4.0'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/python examples/dpboost_lightgbm_train.py
	$(BIN)/python examples/vertical_xgboost.py
	$(BIN)/python examples/hospitals.py

demo-remote: $(VENV)/.remote
	$(BIN)/python examples/remote_training.py
	$(BIN)/python examples/remote_two_banks.py

# One process per processor, up to four; `make test WORKERS=0` runs all tests in one process.
WORKERS ?= auto
PYTEST := python -m pytest --numprocesses $(WORKERS) --dist worksteal

# Two processes compile half of the kernels each; those of the tests would compile all of them twice.
KERNELS := $(wildcard plugins/gbdt_kernels/*.py plugins/gbdt_kernels/*/*.py)

$(VENV)/.warm-trees: $(VENV)/.installed $(KERNELS)
	$(BIN)/veilboost warm newton columns
	touch $@

$(VENV)/.warm-sums: $(VENV)/.installed $(KERNELS)
	$(BIN)/veilboost warm vertical dpboost mboost exact simfl
	touch $@

test: $(VENV)/.installed
	$(MAKE) --jobs=2 $(VENV)/.warm-trees $(VENV)/.warm-sums
	$(BIN)/$(PYTEST)

# What another interpreter, LightGBM, XGBoost or NumPy may break.
test-hosts: $(VENV)/.installed
	$(BIN)/$(PYTEST) -m "hosts and not slow"

# The long tests, in parts: `make test-slow PART=2` runs the second one, `make test-slow` all of them.
PARTS := 1 2 3 4 5 6
PART ?= $(PARTS)

test-slow: $(VENV)/.installed
	set -e; for part in $(PART); do $(BIN)/$(PYTEST) -m slow --part $$part/$(words $(PARTS)); done

# Private models in MLflow, SHAP, ONNX and skops.
test-models: $(MODELS)/.installed
	$(MODELS)/bin/$(PYTEST) tests/lgb_dp/estimators/test_where_models_go.py

test-spark: $(SPARK)/.installed
	$(SPARK)/bin/python -m pytest -m "" tests/lgb_dp/spark

test-all: $(VENV)/.installed $(OLDEST)/.installed
	$(BIN)/$(PYTEST)
	$(MAKE) test-slow PYTHON=$(PYTHON) WORKERS=$(WORKERS)
	$(OLDEST)/bin/$(PYTEST)
	$(MAKE) test-models PYTHON=$(PYTHON) WORKERS=$(WORKERS)
	$(MAKE) test-spark PYTHON=$(PYTHON)

lint: $(VENV)/.installed
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

$(DOCS)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --editable '.[docs]'
	touch $@

# The pages are in docs/_build/html.
docs: $(DOCS)/.installed
	$(DOCS)/bin/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/private/training_time.py
	$(BIN)/python benchmarks/private/dpboost_paper.py --quick
	$(BIN)/python benchmarks/private/mloss_paper.py --quick
	$(BIN)/python benchmarks/vertical/ciphers.py --quick
	$(BIN)/python benchmarks/vertical/alignment.py --quick
	$(BIN)/python benchmarks/vertical/two_party.py --quick
	$(BIN)/python benchmarks/vertical/private_columns.py --quick
	$(BIN)/python benchmarks/vertical/lossless.py --rounds 5
	$(BIN)/python benchmarks/vertical/secureboost_plus.py --quick
	$(BIN)/python benchmarks/federated/horizontal_exact.py --quick
	$(BIN)/python benchmarks/federated/simfl_paper.py --quick
	$(BIN)/python benchmarks/private/private_peers.py --quick
	$(BIN)/python benchmarks/federated/reconstruction.py --quick
	$(BIN)/python benchmarks/common/first_fit.py

# Outside auditors, each in an environment of its own with what audits/requirements pins; results in out/audits.
# What cannot be installed on this Python is skipped by name and counted as not run.  `make audits QUICK=--quick`
# has fewer draws.  `dp_auditorium` and `dp_recorder` are not on PyPI: they are run if PYTHONPATH has their folders.
$(AUDITS)-%/.installed: audits/requirements/%.txt pyproject.toml Makefile
	$(PYTHON) -m venv $(AUDITS)-$*
	$(AUDITS)-$*/bin/python -m pip install --quiet --editable .
	while read -r package; do \
	    $(AUDITS)-$*/bin/python -m pip install --quiet "$$package" || echo "not installed: $$package"; \
	done < $<
	touch $@

# `make fuzz SECONDS=1800` searches each of the parsers for so long.
SECONDS ?= 60

audits: audits-ciphers audits-sums audits-releases audits-attacks audits-fuzz audits-reconstruction \
        audits-timing $(if $(PYTHONPATH),audits-auditorium audits-recorder)

fuzz: audits-fuzz
audits-fuzz: export FUZZ_SECONDS := $(SECONDS)

audits-ciphers audits-releases audits-attacks audits-auditorium audits-fuzz audits-recorder: audits-%: $(AUDITS)-%/.installed
	$(AUDITS)-$*/bin/python -m audits.$* $(QUICK) --out out/audits/$*.json

audits-sums audits-timing: audits-%: $(VENV)/.installed
	$(BIN)/python -m audits.$* $(QUICK) --out out/audits/$*.json

audits-reconstruction: $(VENV)/.installed
	$(BIN)/python benchmarks/federated/reconstruction.py --rows 140 --out out/audits/reconstruction.json

# Which small changes of the code that guarantees rest on no test notices: samples of every module, hours for
# all.  `make mutants MUTANTS="noise --all"` is one group of modules, in full.
mutants: $(VENV)/.installed
	$(BIN)/python audits/mutation.py $(MUTANTS)

# Runs of parties that a seed delays, kills and cuts off; `FIRST=7 SEEDS=1` repeats the run of seed 7.
SEEDS ?= 2000
FIRST ?= 0

simulate: $(VENV)/.installed
	$(BIN)/python tests/simulation/simulate.py --first $(FIRST) --seeds $(SEEDS)

# Pinned versions of everything that the tests install, for each Python; see CONTRIBUTING.md.
requirements: $(TOOLS)/.installed
	$(TOOLS)/bin/python scripts/pin_requirements.py

$(TOOLS)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet 'build>=1.2' 'cyclonedx-bom>=5' 'twine>=6.1' 'uv>=0.5'
	touch $@

# Wheel and source distribution in dist/, the same bytes for the same commit, with an inventory of all dependencies
# (CycloneDX); checked, and tried out in a fresh environment of every Python found.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct)
dist: $(TOOLS)/.installed
	rm -rf dist build
	$(TOOLS)/bin/python -m build --sdist
	$(TOOLS)/bin/python scripts/repack_sdist.py
	umask 022 && $(TOOLS)/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz
	$(TOOLS)/bin/python scripts/inventory.py
	$(TOOLS)/bin/python -m twine check --strict dist/*.whl dist/*.tar.gz
	$(TOOLS)/bin/python scripts/try_wheel.py

clean:
	rm -rf .venv .venv-* docs/_build docs/generated docs/auto_examples build dist *.egg-info

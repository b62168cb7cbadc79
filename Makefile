# Every target works on a fresh clone: the virtual environment is made on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
DOCS := .venv-docs

.PHONY: demo demo-remote test test-all lint docs bench clean

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

# The oldest supported LightGBM and XGBoost, beside everything else at its newest.
$(OLDEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --editable '.[dev]' 'lightgbm==4.2.0' 'xgboost==2.0.3'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/python examples/dpboost_lightgbm_train.py
	$(BIN)/python examples/vertical_xgboost.py
	$(BIN)/python examples/hospitals.py

demo-remote: $(VENV)/.installed
	$(BIN)/python examples/remote_training.py

# One process per processor, up to four; `make test WORKERS=0` runs all tests in one process.
WORKERS ?= auto
PYTEST := python -m pytest --numprocesses $(WORKERS) --dist worksteal

test: $(VENV)/.installed
	$(BIN)/$(PYTEST)

test-all: $(VENV)/.installed $(OLDEST)/.installed
	$(BIN)/$(PYTEST) -m "slow or not slow"
	$(OLDEST)/bin/$(PYTEST)

lint: $(VENV)/.installed
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

$(DOCS)/.installed: pyproject.toml
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --editable '.[docs]'
	touch $@

# The pages are in docs/_build/html.
docs: $(DOCS)/.installed
	$(DOCS)/bin/python -m sphinx -W --keep-going -b html docs docs/_build/html

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/dp_training_time.py
	$(BIN)/python benchmarks/dpboost_paper.py --quick
	$(BIN)/python benchmarks/mloss_paper.py --quick
	$(BIN)/python benchmarks/ciphers.py --quick
	$(BIN)/python benchmarks/lossless.py --rounds 5
	$(BIN)/python benchmarks/secureboost_plus.py --quick
	$(BIN)/python benchmarks/horizontal_exact.py --quick
	$(BIN)/python benchmarks/simfl_paper.py --quick
	$(BIN)/python benchmarks/private_peers.py --quick
	$(BIN)/python benchmarks/reconstruction.py --quick

clean:
	rm -rf $(VENV) $(OLDEST) $(DOCS) docs/_build docs/generated docs/auto_examples build dist *.egg-info

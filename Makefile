# Everything runs in .venv, made on first use; no GPU is needed for any target.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# PyCUDA and cuda-bindings are of use only beside a driver.
EXTRAS := test$(shell ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && echo ',cuda')
WORKERS ?= auto

.PHONY: demo test lint fuzz clean

demo: $(READY)
	$(BIN)/python -m examples.demo

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) tests

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

fuzz: $(READY)
	$(BIN)/python -m tests.fuzz

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info

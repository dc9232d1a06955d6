# Two commands do everything on a fresh Debian machine that has only Python:
#   make quickstart   installs, trains on Fashion-MNIST, evaluates, writes runs/quickstart/report.html
#   make test         installs, checks style, types and import contracts, runs the tests: 8 minutes on two free cores
#   make test-long    runs those that are marked long: sweeps over other people's networks, kills, many rows
#   make docs         builds the site of the documentation in build/docs/html
#   make check        the same without the tests that are marked slow: a minute or so on one core

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: install quickstart docs tutorials check test tests lint style types bench bench-full campaign campaign-crash campaign-fuzz campaign-bulk campaign-engines campaign-serve campaign-index campaign-statistics clean test-long

install: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[bench,completion,dev,dicom,docs,encoders,export,formats,heif,postgres,qdrant,search,serve,text,timm]"
	touch $(READY)

quickstart: $(READY)
	$(BIN)/labeltree data get fashion-mnist
	$(BIN)/labeltree train --config recipes/quickstart/auto.yaml --out runs/quickstart
	$(BIN)/labeltree train --config recipes/quickstart/supcon.yaml --out runs/quickstart-supcon
	$(BIN)/labeltree train --config recipes/quickstart/hwc-lam.yaml --out runs/quickstart-hwc-lam
	$(BIN)/labeltree evaluate runs/quickstart --beside runs/quickstart-supcon runs/quickstart-hwc-lam

# Offline; every warning is an error. Open build/docs/html/index.html.
docs: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python docs/build_site build/docs

# The pictures of docs/tutorials, made by running them; needs Chromium.
tutorials: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python docs/examples/tutorial_pictures.py docs/images/tutorials

# Compiled once, not by each of the processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

lint: style types

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/mypy

check: lint
	$(BIN)/python -m pytest -m "not slow and not long"

# A process of tests for each processor and one more, as some tests wait; at most four: each needs about 2 GB.
WORKERS ?= $(shell n=$$(OMP_NUM_THREADS= nproc 2>/dev/null || echo 1); echo $$((n < 3 ? n + 1 : 4)))

# Types are checked beside the tests: mypy alone leaves a core idle for a minute.
test: style
	$(MAKE) --jobs=2 types tests

# The CPU seconds of every room are printed at the end; of every test: add --budget FILE.
# In the order of names: by number of tests, files of one long test would come last, when the other cores are idle.
# A thread for each process: there are more of them than processors.
tests: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --workers $(WORKERS) -m "not long"

test-long: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --workers $(WORKERS) -m long

# Time, memory and accuracy beside the goals of docs/performance.md; bench-full makes the committed results.
bench: $(READY)
	$(BIN)/python benchmarks/every.py --short

bench-full: $(READY)
	$(BIN)/python benchmarks/every.py
	$(BIN)/python benchmarks/goals.py --write

# What docs/reliability.md says, tried at length. For more, or other, kills: make campaign-crash COUNT=500 SEED=1;
# more, or other, damaged files: make campaign-fuzz FUZZ_CASES=9000 SEED=1
# The service under load, make campaign-serve, needs wrk (apt install wrk).
COUNT      ?= 120
FUZZ_CASES ?= 2000
SEED       ?= 0

campaign: campaign-crash campaign-fuzz campaign-serve campaign-bulk campaign-engines campaign-index campaign-statistics

campaign-crash: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/processes/crash.py --count $(COUNT) --seed $(SEED)

campaign-fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/reliability/campaign_fuzz.py --cases $(FUZZ_CASES) --seed $(SEED)

campaign-serve: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/serving.py

# 100,000 generated images, 20 kills: ten minutes to half an hour. Results in benchmarks/results/bulk.json.
campaign-bulk: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/bulk.py

# A local Ray, Spark and Dask, and s3:// on a server on loopback; what is not installed is skipped:
# $(BIN)/pip install ray pyspark 'dask[dataframe]' s3fs 'moto[server]', and apt install default-jre-headless.
campaign-engines: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/inference/campaign_engines.py tests/data/campaign_object_stores.py

# 64 kills of changes of an index: a few minutes. Results in benchmarks/results/index_kills.json.
campaign-index: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/index_kills.py

# Whether intervals of shares and of retrieval hold, and equal encoders differ in 5 of 100 comparisons: hours; it goes on where it
# was stopped.
campaign-statistics: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/proportions.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/worst_stratum.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/means_over_nodes.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/pooled_folds.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/coverage.py --repetitions 4000 --raw benchmarks/results/coverage.npz

clean:
	rm -rf build $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# make lab          install the course and open JupyterLab at the first notebook  (PORT=8899  BROWSER=none)
# make test         run the tests, the notebooks and JupyterLab in a browser
# make thorough     run what `make test` leaves out: the rest of long tables, Colab, nbgrader, fuzzing
# make quick        run a small part of the tests in a few minutes, without slow tests or a browser
# make check        check lint, formatting, types, import layers, configuration, prose and built files
# make hooks        run the parts of `make check` when you commit and push
# make notebooks    build everything that is derived from a source        (ONLY="01 02"  FORCE=1)
# make pictures     take the screenshots for the README, with JupyterLab in Chromium
# make bench        run a quick version of each benchmark, to check that it works
# make book         build the course as a website in build/book
# make colab        run every lesson and solution with Colab's versions
# make versions     run the tests on other versions of PyTorch and Python (ONLY=versions-3.13  TESTS=…)
# make fuzz         run the random tests longer and with new examples     (TIMES=20)
# make mutants      find changes to references and rules that no test notices  (ONLY=functions/sort.py)
# make coverage     list the branches that no test runs                   (TESTS=…)
# make release      build the distributions in dist, install and try them (TAG=v0.1.0)
# make gpu          run the tests and notebooks, and fail on a machine without a GPU
# make system       install the system packages that the tests need, with apt
# make sessions     print the sessions of `make versions` as JSON for the weekly workflow
# make constraints  pin the newest versions that pyproject.toml and this PyTorch allow
# make book-pins    pin the newest versions that build the book
# make clean        remove the environment and all caches

PYTHON ?= python3
# The oldest Python version that pyproject.toml allows.
OLDEST := $(shell sed -n 's/^requires-python = ">=\(.*\)"/\1/p' pyproject.toml)
VENV := .venv
BIN := $(VENV)/bin
LAB := $(VENV)/.lab
INSTALLED := $(VENV)/.installed
TESTS_OF := tests packages/autograd-doctor/tests packages/autograd-classroom/tests
PIP := -m pip --quiet --disable-pip-version-check
COLABS := build/colab
NBGRADER := build/nbgrader
BOOK_ENV := build/book-env
BOOK_PINS := docs/book/requirements.txt
VERSIONS := build/versions
MUTANTS := build/mutants
NOTEBOOKS := notebooks solutions exercises
CHECKS := check-lint check-format check-types check-layers check-schemas check-prose check-built

# A test run starts a hundred Python processes. Bytecode files let Python compile each module once.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lab test thorough quick bench coverage check $(CHECKS) notebooks pictures book book-pins constraints \
    clean colab fuzz versions mutants hooks system sessions gpu release

# The command reads PORT and BROWSER from the environment.
lab: $(LAB)
	@$(BIN)/autograd-course lab

# With loadfile, the tests in a file and the cells in a notebook run in order and in one process.
# The third process keeps two cores busy while the others wait for a browser or a kernel.
test: $(INSTALLED)
	$(BIN)/python -m pytest $(TESTS_OF) $(NOTEBOOKS) -m "not thorough" --nbval --nbval-current-env \
	    --nbval-cell-timeout=120 --numprocesses=3 --dist=loadfile --no-loadscope-reorder

thorough: $(INSTALLED) $(COLABS)/.installed $(NBGRADER)
	$(BIN)/python -m pytest $(TESTS_OF) $(NOTEBOOKS) -m thorough --nbval --nbval-current-env \
	    --nbval-cell-timeout=120 --numprocesses=3 --dist=loadfile --no-loadscope-reorder

quick: $(INSTALLED)
	$(BIN)/python -m pytest $(TESTS_OF) --quick -m "not thorough" --numprocesses=2 --dist=worksteal -q

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --quick

# This target measures which lines run. Only `make test` shows whether the tests pass. Two groups of
# tests fail here. The tests of torch.compile fail because it is off: on Python 3.11, it can wait
# forever for a tracer. The tests of the Function lab's lines fail because the lab does not trace
# while another tracer is active.
coverage: export TORCHDYNAMO_DISABLE = 1
coverage: $(INSTALLED) $(NBGRADER)
	rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/python -m coverage run -m pytest $(or $(TESTS),$(TESTS_OF)) -m "not browser" \
	    --ignore=tests/project/test_benchmarks.py --numprocesses=2 --dist=loadfile --no-loadscope-reorder -q
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report $(if $(TESTS),,--fail-under=95)

colab: $(INSTALLED) $(COLABS)/.installed
	$(BIN)/python -m pytest tests/colab/test_colab.py tests/colab/every_notebook.py

# Each version takes ten minutes and 6 GB of disk space. noxfile.py lists the sessions.
versions: $(VERSIONS)/.installed
	@rm -f $(VERSIONS)/summary.txt
	$(VERSIONS)/tool/bin/python -m nox --envdir $(VERSIONS) $(if $(ONLY),--sessions "$(ONLY)") \
	    $(if $(TESTS),-- $(TESTS)); \
	    status=$$?; cat $(VERSIONS)/summary.txt 2>/dev/null; exit $$status

# This takes an hour or more. With ONLY, it tests one module or folder of the package.
mutants: export PYTHONPATH = tests/support:packages/autograd-doctor/tests/support:packages/autograd-classroom/tests/support:$(MUTANTS)
mutants: $(INSTALLED) $(MUTANTS)/.installed
	$(BIN)/python -m mutants $(ONLY)

# This takes an hour or more. It runs TIMES times as many random examples as `make thorough`.
fuzz: $(INSTALLED)
	AUTOGRAD_COURSE_FUZZ=$(or $(TIMES),20) $(BIN)/python -m pytest tests -k fuzz \
	    --override-ini=timeout=0 --hypothesis-show-statistics

# Run every tool, even if an earlier one has found something. The git hooks run the same tools.
check:
	@$(MAKE) --no-print-directory --keep-going $(CHECKS)

check-lint: $(INSTALLED)
	$(BIN)/ruff check .

check-format: $(INSTALLED)
	$(BIN)/ruff format --check .

check-types: $(INSTALLED)
	$(BIN)/mypy

check-layers: $(INSTALLED)
	$(BIN)/lint-imports --no-logo --no-cache

# The schemas come with check-jsonschema, so this needs no network.
check-schemas: SCHEMA = $(BIN)/check-jsonschema --quiet --builtin-schema
check-schemas: $(INSTALLED)
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) custom.github-workflows-require-timeout .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(SCHEMA) vendor.citation-file-format CITATION.cff
	$(BIN)/pre-commit validate-config .pre-commit-config.yaml
	$(BIN)/validate-pyproject pyproject.toml packages/*/pyproject.toml

check-prose: $(INSTALLED)
	$(BIN)/python -m tools.prose

check-built: $(INSTALLED)
	$(BIN)/python -m tools check

hooks: $(INSTALLED)
	$(BIN)/pre-commit install

# CI runs this before the tests.
system:
	.ci/system

sessions: $(VERSIONS)/.installed
	@printf 'sessions='
	@$(VERSIONS)/tool/bin/python -m nox --list --json

gpu: $(INSTALLED)
	@$(BIN)/python -c 'import sys, torch; sys.exit(0 if torch.accelerator.is_available() else "PyTorch finds no GPU on this machine.")'
	@$(MAKE) --no-print-directory test

# TAG is the tag of a release, such as v0.1.0. If TAG is set, the version numbers must match it.
release: $(INSTALLED)
	$(BIN)/python -m tools.release $(TAG)

notebooks: $(INSTALLED)
	$(BIN)/python -m tools build $(ONLY) $(if $(FORCE),--force)
	$(BIN)/python -m tools.manual > docs/command_line.md

pictures: $(INSTALLED)
	$(BIN)/python -m docs.pictures

# This fails if Sphinx prints a warning, a link is broken, or a picture has no alt text.
book: $(INSTALLED) $(BOOK_ENV)/.installed
	$(BIN)/python -m tools.book states
	$(BIN)/python -m tools.book stage build/book-source
	rm -rf build/book
	$(BOOK_ENV)/bin/python -m sphinx --builder html --conf-dir docs/book --fail-on-warning --nitpicky \
	    --fresh-env --quiet --jobs auto --doctree-dir build/book-doctrees build/book-source build/book
	$(BIN)/python -m tools.book light build/book
	$(BIN)/python -m tools.book check build/book
	@echo "The book: build/book/index.html"

# Each installation updates a stamp file. If no source is newer, make does not install again.
$(LAB): pyproject.toml packages/autograd-doctor/pyproject.toml packages/autograd-classroom/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "'$(PYTHON)' was not found. Install Python $(OLDEST) or newer, or name yours, as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < tuple(map(int, "$(OLDEST)".split("."))))' || { echo "$$($(PYTHON) --version) is too old. The course needs Python $(OLDEST) or newer. Name a newer one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python cannot create environments. Install venv (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Installing the course into $(VENV). The first time takes a few minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) install --constraint constraints.txt --editable packages/autograd-doctor --editable '.[lab,ship]'
	@touch $@

# The tests also need tools, and third-party packages whose Functions they pass to diagnose.
$(INSTALLED): $(LAB)
	@echo "Installing what the tests need into $(VENV)."
	@$(BIN)/python $(PIP) install --constraint constraints.txt --editable packages/autograd-doctor \
	    --editable '.[dev,third-party]' --editable packages/autograd-classroom
	@touch $@

# Colab's versions take precedence over those in $(VENV). Python does not read the .pth files in
# $(VENV) here, so the course is missing, and a notebook's setup cell has to install it.
$(COLABS)/.installed: tests/support/colab/requirements.txt $(INSTALLED)
	@test -x $(COLABS)/bin/python || $(BIN)/python -m venv --without-pip $(COLABS)
	@$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
	    > "$$($(COLABS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beneath.pth"
	$(COLABS)/bin/python $(PIP) install --no-deps --ignore-installed --requirement $<
	@touch $@

# nbgrader has its own folder. In $(VENV), it would add an instructor's menus to JupyterLab.
$(NBGRADER): $(INSTALLED)
	$(BIN)/python $(PIP) install --no-deps --target $@ nbgrader==0.9.6 notebook==7.6.5 \
	    alembic==1.20.1 Mako==1.4.3 RapidFuzz==3.14.6 SQLAlchemy==2.1.9
	@touch $@

# nox and uv create the environments of `make versions`. They have an environment of their own.
$(VERSIONS)/.installed:
	$(PYTHON) -m venv $(VERSIONS)/tool
	$(VERSIONS)/tool/bin/python $(PIP) install nox==2026.10.20 uv==0.13.9
	@touch $@

# mutmut generates the changes to the code. $(VENV) contains its other dependencies.
$(MUTANTS)/.installed:
	$(BIN)/python $(PIP) install --no-deps --target $(MUTANTS) mutmut==3.8.1 libcst==1.9.0
	@touch $@

# Sphinx has its own environment, because learners do not need it.
$(BOOK_ENV)/.installed: $(BOOK_PINS)
	rm -rf $(BOOK_ENV) && $(PYTHON) -m venv $(BOOK_ENV)
	$(BOOK_ENV)/bin/python $(PIP) install --requirement $(BOOK_PINS)
	@touch $@

book-pins:
	rm -rf $(BOOK_ENV) && $(PYTHON) -m venv $(BOOK_ENV)
	$(BOOK_ENV)/bin/python $(PIP) install --requirement docs/book/requirements.in
	echo '# The exact versions that build the book. `make book-pins` writes this file. Do not edit it.' > $(BOOK_PINS)
	$(BOOK_ENV)/bin/python -m pip freeze >> $(BOOK_PINS)
	@touch $(BOOK_ENV)/.installed

# This uses a new environment, so that it does not pin unrelated packages in $(VENV). torch keeps its
# version, because the lessons teach its behavior. To change the version, first edit the torch line in
# constraints.txt. GPU libraries are left out, because torch itself pins them. jsonschema 4.25 and later
# versions load a grammar, which delays the start of each Jupyter process by seconds. soupsieve 3 and
# later versions do not install on Python 3.11.2, the version in Debian 12.
constraints:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	grep '^torch==' constraints.txt > build/pins/kept.txt
	printf '%s\n' 'jsonschema<4.25' 'soupsieve<3' >> build/pins/kept.txt
	build/pins/bin/python $(PIP) install --constraint build/pins/kept.txt ./packages/autograd-doctor '.[dev,third-party]' ./packages/autograd-classroom
	echo '# The exact versions that the tests run on. `make constraints` writes this file. Do not edit it.' > constraints.txt
	build/pins/bin/python $(PIP) freeze --exclude autograd-classroom --exclude autograd-course --exclude autograd-doctor | sed 's/+cpu$$//' \
	    | grep -vE '^(cuda-|nvidia-|triton)' >> constraints.txt
	rm -rf build/pins

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

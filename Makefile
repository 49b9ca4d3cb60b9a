# make lab      set up, open JupyterLab at the first notebook    (PORT=8899  BROWSER=none)
# make test     set up, run unit tests, every notebook, the browser
# make thorough   what `make test` leaves out: long tables to their ends, Colab, nbgrader, fuzzing
# make quick    some minutes: some rows of each table of tests, no processes, no browser
# make colab    every lesson and solution on Colab's versions, as a notebook is opened there
# make versions   the tests on the oldest, the pinned and the newest PyTorch, each Python (ONLY=versions-3.13  TESTS=…)
# make fuzz     the random tests, longer and with new examples     (TIMES=20)
# make mutants    which changes of references and rules no test notices  (ONLY=functions/sort.py)
# make coverage   which branches of the package the tests take: 95 of 100 at least  (TESTS=…)
# make check    lint, formatting, types, layers, drift of everything derived
# make notebooks  build everything derived                      (ONLY="01 02"  FORCE=1)
# make pictures   make README's pictures, by a JupyterLab in Chromium
# make bench    each benchmark in its quick form: that it runs, not the figures to quote
# make book     build the course as a web site: build/book/index.html
# make book-pins  pin the newest set that builds the book
# make constraints  pin the newest set that pyproject.toml and this torch allow
# make clean    remove the environment and all caches

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LAB := $(VENV)/.lab
INSTALLED := $(VENV)/.installed
TESTS_OF := tests packages/autograd-doctor/tests
PIP := -m pip --quiet --disable-pip-version-check
COLABS := build/colab
NBGRADER := build/nbgrader
BOOK_ENV := build/book-env
BOOK_PINS := docs/book/requirements.txt
VERSIONS := build/versions
MUTANTS := build/mutants
NOTEBOOKS := notebooks solutions exercises

# A test run starts a hundred Python processes: what they import is compiled once, for all of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lab test thorough quick bench coverage check notebooks pictures book book-pins constraints clean colab \
    fuzz versions mutants

# PORT and BROWSER reach the command through the environment.
lab: $(LAB)
	@$(BIN)/autograd-course lab

# Tests of one file, and cells of one notebook, stay in one process and in order: loadfile. On two
# cores, a third process has what the others leave while they wait for a browser or a kernel.
test: $(INSTALLED)
	$(BIN)/python -m pytest $(TESTS_OF) $(NOTEBOOKS) -m "not thorough" --nbval --nbval-current-env \
	    --nbval-cell-timeout=120 --numprocesses=3 --dist=loadfile --no-loadscope-reorder

thorough: $(INSTALLED) $(COLABS)/.installed $(NBGRADER)
	$(BIN)/python -m pytest $(TESTS_OF) -m thorough --numprocesses=3 --dist=loadscope

quick: $(INSTALLED)
	$(BIN)/python -m pytest $(TESTS_OF) --quick -m "not thorough" --numprocesses=2 --dist=worksteal -q

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks --quick

# Not what fails, but what is run: that tests pass is for `make test` to say. Here those of
# torch.compile fail, which is off: on Python 3.11 it can wait for a tracer without end. And those of
# the Function lab's lines, which does not trace where another tracer is at work.
coverage: export TORCHDYNAMO_DISABLE = 1
coverage: $(INSTALLED) $(NBGRADER)
	rm -rf build/coverage && mkdir -p build/coverage
	-$(BIN)/python -m coverage run -m pytest $(or $(TESTS),$(TESTS_OF)) -m "not browser" \
	    --ignore=tests/project/test_benchmarks.py --numprocesses=2 --dist=loadfile --no-loadscope-reorder -q
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report $(if $(TESTS),,--fail-under=95)

colab: $(INSTALLED) $(COLABS)/.installed
	$(BIN)/python -m pytest tests/colab/test_colab.py tests/colab/every_notebook.py

# Hours, and 6 GB for each version: noxfile.py tells what. With ONLY, some of them.
versions: $(VERSIONS)/.installed
	@rm -f $(VERSIONS)/summary.txt
	$(VERSIONS)/tool/bin/python -m nox --envdir $(VERSIONS) $(if $(ONLY),--sessions "$(ONLY)") \
	    $(if $(TESTS),-- $(TESTS)); \
	    status=$$?; cat $(VERSIONS)/summary.txt 2>/dev/null; exit $$status

# An hour or more for all: tests/mutants tells what. With ONLY, a module or a folder of the package.
mutants: export PYTHONPATH = tests/support:packages/autograd-doctor/tests/support:$(MUTANTS)
mutants: $(INSTALLED) $(MUTANTS)/.installed
	$(BIN)/python -m mutants $(ONLY)

# An hour or more: as many times the examples that `make test` runs.
fuzz: $(INSTALLED)
	AUTOGRAD_COURSE_FUZZ=$(or $(TIMES),20) $(BIN)/python -m pytest tests -k fuzz \
	    --override-ini=timeout=0 --hypothesis-show-statistics

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache
	$(BIN)/python -m tools check

notebooks: $(INSTALLED)
	$(BIN)/python -m tools build $(ONLY) $(if $(FORCE),--force)
	$(BIN)/python -m tools.manual > docs/command_line.md

pictures: $(INSTALLED)
	$(BIN)/python -m docs.pictures

# A warning of Sphinx, a dead link, or a picture without a text alternative fails.
book: $(INSTALLED) $(BOOK_ENV)/.installed
	$(BIN)/python -m tools.book stage build/book-source
	rm -rf build/book
	$(BOOK_ENV)/bin/python -m sphinx --builder html --conf-dir docs/book --fail-on-warning --nitpicky \
	    --fresh-env --quiet --jobs auto --doctree-dir build/book-doctrees build/book-source build/book
	$(BIN)/python -m tools.book check build/book
	@echo "The book: build/book/index.html"

# A stamp is younger than what it was installed from: a second call installs nothing.
$(LAB): pyproject.toml packages/autograd-doctor/pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "There is no '$(PYTHON)' here: install Python 3.11 or newer, or name yours, as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: the course needs 3.11 or newer. Name a newer one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python cannot create environments: install venv (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Installing the course into $(VENV). The first time takes a few minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) install --constraint constraints.txt --editable packages/autograd-doctor --editable '.[lab,ship]'
	@touch $@

# The tests need more: tools, and other people's packages on which diagnose must say what an expert says.
$(INSTALLED): $(LAB)
	@echo "Installing what the tests need into $(VENV)."
	@$(BIN)/python $(PIP) install --constraint constraints.txt --editable packages/autograd-doctor --editable '.[dev,third-party]'
	@touch $@

# Colab's versions over those of $(VENV). Of its .pth files none is read here, so that the course,
# installed by one of them, is not here: the setup cell installs it.
$(COLABS)/.installed: tests/support/colab/requirements.txt $(INSTALLED)
	@test -x $(COLABS)/bin/python || $(BIN)/python -m venv --without-pip $(COLABS)
	@$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" \
	    > "$$($(COLABS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beneath.pth"
	$(COLABS)/bin/python $(PIP) install --no-deps --ignore-installed --requirement $<
	@touch $@

# Apart: in $(VENV) it would put an instructor's menus into every learner's JupyterLab.
$(NBGRADER): $(INSTALLED)
	$(BIN)/python $(PIP) install --no-deps --target $@ nbgrader==0.9.6 notebook==7.6.5 \
	    alembic==1.20.1 Mako==1.4.3 RapidFuzz==3.14.6 SQLAlchemy==2.1.9
	@touch $@

# Apart: nox and uv make the environments of `make versions`.
$(VERSIONS)/.installed:
	$(PYTHON) -m venv $(VERSIONS)/tool
	$(VERSIONS)/tool/bin/python $(PIP) install nox==2026.10.20 uv==0.13.9
	@touch $@

# Apart: what changes the code. Of what it needs, the rest is in $(VENV), or is for its own runner.
$(MUTANTS)/.installed:
	$(BIN)/python $(PIP) install --no-deps --target $(MUTANTS) mutmut==3.8.1 libcst==1.9.0
	@touch $@

# Apart: Sphinx and its theme are nobody's who takes the course.
$(BOOK_ENV)/.installed: $(BOOK_PINS)
	rm -rf $(BOOK_ENV) && $(PYTHON) -m venv $(BOOK_ENV)
	$(BOOK_ENV)/bin/python $(PIP) install --requirement $(BOOK_PINS)
	@touch $@

book-pins:
	rm -rf $(BOOK_ENV) && $(PYTHON) -m venv $(BOOK_ENV)
	$(BOOK_ENV)/bin/python $(PIP) install --requirement docs/book/requirements.in
	echo '# The exact set that the book is built with. Written by `make book-pins`; not by hand.' > $(BOOK_PINS)
	$(BOOK_ENV)/bin/python -m pip freeze >> $(BOOK_PINS)
	@touch $(BOOK_ENV)/.installed

# In an environment of its own: what happens to lie in $(VENV) is not pinned. torch keeps its version,
# whose behavior the lessons teach: edit its line first to change it. It pins its GPU libraries itself.
# jsonschema from 4.25 on brings a grammar that costs each Jupyter process seconds when it starts.
constraints:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	grep '^torch==' constraints.txt > build/pins/kept.txt
	echo 'jsonschema<4.25' >> build/pins/kept.txt
	build/pins/bin/python $(PIP) install --constraint build/pins/kept.txt ./packages/autograd-doctor '.[dev,third-party]'
	echo '# The exact set that the tests run on. Written by `make constraints`; not by hand.' > constraints.txt
	build/pins/bin/python $(PIP) freeze --exclude autograd-course --exclude autograd-doctor | sed 's/+cpu$$//' \
	    | grep -vE '^(cuda-|nvidia-|triton)' >> constraints.txt
	rm -rf build/pins

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

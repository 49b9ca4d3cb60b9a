# make lab      set up, open JupyterLab at the first notebook    (PORT=8899  BROWSER=none)
# make test     set up, run everything: unit tests, every notebook, the browser
# make quick    only the tests that need neither notebooks' kernels nor a browser
# make fuzz     the random tests, longer and with new examples     (TIMES=20)
# make check    lint, formatting, types, drift of everything derived
# make notebooks  build everything derived                      (ONLY="01 02"  FORCE=1)
# make constraints  pin the newest set that pyproject.toml and this torch allow
# make clean    remove the environment and all caches

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := -m pip --quiet --disable-pip-version-check
COLABS := build/ipywidgets7
NBGRADER := build/nbgrader
NOTEBOOKS := notebooks solutions exercises

# A test run starts a hundred Python processes: what they import is compiled once, for all of them.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: lab test quick fuzz check notebooks constraints clean

# PORT and BROWSER reach the command through the environment.
lab: $(INSTALLED)
	@$(BIN)/autograd-course lab

# Tests of one file, and cells of one notebook, stay in one process and in order: loadfile. On two
# cores a third process has what the others leave while they wait for a browser or a kernel.
test: $(INSTALLED) $(COLABS) $(NBGRADER)
	$(BIN)/python -m pytest tests $(NOTEBOOKS) --nbval --nbval-current-env \
	    --nbval-cell-timeout=120 --numprocesses=3 --dist=loadfile --no-loadscope-reorder

quick: $(INSTALLED)
	$(BIN)/python -m pytest tests -m "not browser"

# An hour or more: as many times the examples that `make test` runs.
fuzz: $(INSTALLED)
	AUTOGRAD_COURSE_FUZZ=$(or $(TIMES),20) $(BIN)/python -m pytest tests -k fuzz \
	    --override-ini=timeout=0 --hypothesis-show-statistics

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m autograd_course.authoring check

notebooks: $(INSTALLED)
	$(BIN)/python -m autograd_course.authoring build $(ONLY) $(if $(FORCE),--force)

# The stamp is younger than what it was installed from: a second call installs nothing.
$(INSTALLED): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "There is no '$(PYTHON)' here: install Python 3.11 or newer, or name yours, as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$$($(PYTHON) --version) is too old: the course needs 3.11 or newer. Name a newer one, as in: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "This Python cannot create environments: install venv (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@echo "Installing the course into $(VENV); the first time takes some minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python $(PIP) install --constraint constraints.txt --editable '.[dev,third-party]'
	@touch $@

# The version that Colab has, to be put before the installed one on the path.
$(COLABS): $(INSTALLED)
	$(BIN)/python $(PIP) install --no-deps --target $@ ipywidgets==7.7.1 ipython_genutils==0.2.0
	@touch $@

# Apart: in $(VENV) it would put an instructor's menus into every learner's JupyterLab.
$(NBGRADER): $(INSTALLED)
	$(BIN)/python $(PIP) install --no-deps --target $@ nbgrader==0.9.6 notebook==7.6.5 \
	    alembic==1.20.1 Mako==1.4.3 RapidFuzz==3.14.6 SQLAlchemy==2.1.9
	@touch $@

# In an environment of its own: what happens to lie in $(VENV) is not pinned. torch keeps its version,
# whose behavior the lessons teach: edit its line first to change it. It pins its GPU libraries itself.
# jsonschema from 4.25 on brings a grammar that costs each Jupyter process seconds when it starts.
constraints:
	rm -rf build/pins && $(PYTHON) -m venv build/pins
	grep '^torch==' constraints.txt > build/pins/kept.txt
	echo 'jsonschema<4.25' >> build/pins/kept.txt
	build/pins/bin/python $(PIP) install --constraint build/pins/kept.txt '.[dev,third-party]'
	echo '# The exact set that the tests run on. Written by `make constraints`; not by hand.' > constraints.txt
	build/pins/bin/python $(PIP) freeze --exclude autograd-course | sed 's/+cpu$$//' \
	    | grep -vE '^(cuda-|nvidia-|triton)' >> constraints.txt
	rm -rf build/pins

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache *.egg-info
	find . -name __pycache__ -prune -exec rm -rf {} +

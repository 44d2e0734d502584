# Everything a developer or CI runs. `make dev` needs Python >= 3.11 with venv; a C++ compiler is used when
# there is one (see build_backend/). Nothing is installed outside the checkout.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PYTEST := $(BIN)/python -m pytest
NATIVE := native/*.cpp native/*.hpp native/*.h native/*.cu
# Debian's packages $(1), where they lack; as root. One at a time, for targets that run beside each other.
packages = dpkg -s $(1) >/dev/null 2>&1 || test "$$(id -u)" -ne 0 || flock /var/lib/dpkg sh -c 'apt-get update -qq \
  && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $(1) >/dev/null'

.DEFAULT_GOAL := help
.PHONY: help dev core lint format test test-slow test-gpu test-packaging test-aarch64 test-browser test-hosts test-slurm test-container kubernetes-tools test-kubernetes image-cpu wheels release-check docs site demo clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 18

dev: core ## .venv with busbw (editable) and every development tool

# The stamp is only written at the end, and is older than pyproject.toml when dependencies may have changed.
$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv \
	  || { echo "hint: install the venv module (Debian: apt-get install python3-venv), then repeat" >&2; rm -rf .venv; exit 1; }
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

core: $(READY) ## rebuild only the native library, into src/busbw/machine/native
	$(BIN)/python build_backend/native_core.py -DBUSBW_WERROR=ON

lint: $(READY) ## every check that does not run the program
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(wildcard $(NATIVE))
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/make_ptx.py --check
	$(BIN)/python tools/make_reference.py --check
	$(BIN)/python tools/check_docs.py
	$(BIN)/python tools/make_site.py
	$(BIN)/hadolint --ignore DL3008 --ignore DL3059 images/*/Containerfile  # versions are the distribution's; layers that change apart
	$(BIN)/shellcheck --shell=bash --exclude=SC1091 images/recipes/*.sh  # lib.sh is read at run time

format: $(READY) ## rewrite the sources as lint wants them
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(wildcard $(NATIVE))

FAST := "not slow and not packaging and not aarch64 and not gpu and not browser and not hosts and not slurm and not container and not kubernetes"
# A worker for each core, and a file's tests in one worker. Ranks mostly wait for one another, so tests that start
# some are quicker side by side too.
SPREAD := -n auto --maxprocesses 8 --dist loadfile
test: core ## the fast tests
	$(PYTEST) -m $(FAST) $(SPREAD)

test-slow: core ## the tests that take longer; those for a GPU say why they were skipped
	$(PYTEST) -m "slow and not packaging and not aarch64" $(SPREAD) || test $$? -eq 5  # 5: there are none

test-gpu: core ## every case and injected faults on all visible GPUs, one rank each
	$(PYTEST) -m gpu --timeout 900 tests/gpu

test-packaging: core ## build and install the package in the ways users do, also beside Debian's MPIs
	@$(call packages,mmdebstrap)  # for the Pythons that are not here
	@test "$$(id -u)" -ne 0 || ! command -v apt-get >/dev/null || flock /var/lib/dpkg apt-get update -qq
	$(PYTEST) -m packaging --timeout 900 tests/packaging tests/mpi tests/examples

test-aarch64: core ## the aarch64 wheel's core under a real aarch64 Python (qemu-user)
	$(PYTEST) -m aarch64 --timeout 900 tests/packaging

BROWSER_PACKAGES := chromium fonts-dejavu-core
test-browser: core ## the report and the site in a headless Chromium; as root it installs Debian's
	@command -v chromium >/dev/null 2>&1 || $(call packages,$(BROWSER_PACKAGES))
	$(BIN)/python -m pip install --quiet 'playwright>=1.50'
	$(PYTEST) -m browser --timeout 300 tests/browser

HOSTS_PACKAGES := openssh-server openssh-client iproute2 nftables util-linux
test-hosts: core ## runs and hunts over SSH between hosts in network namespaces; as root it installs sshd
	@$(call packages,$(HOSTS_PACKAGES))
	$(PYTEST) -m hosts --timeout 900 $(SPREAD) tests/hosts

SLURM_PACKAGES := slurm-wlm slurmctld slurmd slurm-client munge libpmix-dev iproute2
test-slurm: core ## runs on a real Slurm of four nodes in network namespaces; as root it installs Debian's
	@$(call packages,$(SLURM_PACKAGES))
	$(PYTEST) -m slurm $(SPREAD) tests/slurm

CONTAINER_PACKAGES := buildah golang-github-containers-common mmdebstrap
image-cpu: wheels ## build images/cpu with buildah, as busbw:cpu; as root it installs Debian's
	@$(call packages,$(CONTAINER_PACKAGES))
	buildah build --isolation chroot --format docker --file images/cpu/Containerfile --tag busbw:cpu .

test-container: core ## builds the container images with buildah and runs ranks in them; as root it installs it
	@$(call packages,$(CONTAINER_PACKAGES))
	$(PYTEST) -m container --timeout 1200 tests/containers

KUBERNETES_PACKAGES := openssh-server openssh-client openssl iproute2 nftables
kubernetes-tools: core ## the Kubernetes control plane of its tests, built once with Go (6-20 min) from idle time
	@$(call packages,$(KUBERNETES_PACKAGES))
	PYTHONPATH=tests/support nice -n 19 $(BIN)/python -m busbw_testing.kubernetes_tools

test-kubernetes: kubernetes-tools ## runs on a real Kubernetes control plane; root, else skipped
	$(PYTEST) -m kubernetes --timeout 300 -n 2 --dist loadfile tests/kubernetes  # a control plane for each

wheels: $(READY) ## release wheels for x86-64 and aarch64, and the sdist, into a new dist/
	rm -rf dist
	$(BIN)/python tools/build_wheels.py --sdist

release-check: wheels ## look at what dist/ has for a release: names, contents, metadata, and whether the sdist builds
	$(BIN)/python tools/release_check.py

docs: $(READY) ## write the generated pages, and check all
	$(BIN)/python tools/make_reference.py
	$(BIN)/python tools/check_docs.py

site: $(READY) ## the documentation as a site, into build/site; broken links fail
	$(BIN)/python tools/make_site.py

demo: core ## measure all_reduce between two ranks on this machine
	$(BIN)/busbw run all_reduce --ranks 2 -b 1K -e 1M

clean: ## remove everything that was built, but not .venv
	rm -rf build dist *.egg-info src/busbw/machine/native/*.so src/busbw/machine/native/*.ptx
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

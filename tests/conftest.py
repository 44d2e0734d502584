"""For all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# What tests start hears Ctrl-C and a closed terminal, though pytest itself was started with both ignored
# (in the background of a script, by nohup): an ignored signal would stay ignored, a handled one starts anew.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # pytest goes on, as nohup promised

# Machines are shared: how long an example or its making takes says nothing of busbw.
settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("shared")


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whoever forgets to say where runs are kept does not write among the developer's own."""
    with pytest.MonkeyPatch.context() as patch:
        if "BUSBW_HOME" not in os.environ:
            patch.setenv("BUSBW_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True)
def same_environment() -> Iterator[None]:
    """What a test leaves in the environment reaches those that come after it in the same process."""
    before = _variables()
    yield
    left = sorted(set(_variables().items()) ^ set(before.items()))
    assert not left


def _variables() -> dict[str, str]:
    """Less what pytest says of the test, and what a library (polars) sets as it is imported first."""
    return {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST" and not k.startswith("_")}

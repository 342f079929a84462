from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# Tests that loop over cases; records made by hand, for the tests of reports and of the record.
pytest_plugins = ["loops", "records"]

# Threads that wait for others would spin, and tests on all cores leave them none to wait on.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_SHARED = Path(__file__).parents[2] / "shared" / "data"
if _SHARED.is_dir():
    os.environ.setdefault("DPAUDIT_DATA", str(_SHARED))


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """No workers for one file, which runs on one of them: they would start for longer than most."""
    files = {argument.split("::")[0] for argument in config.args}
    return 0 if len(files) == 1 and os.path.isfile(files.pop()) else None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Collect from the last folder on, on every second worker.

    Workers that meet halfway each read the compiled modules that the other has written.
    """
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    if number % 2 and session.config.args == session.config.getini("testpaths"):
        folders = (path for path in Path(__file__).parent.iterdir() if path.is_dir())
        session.config.args = sorted(map(str, folders), reverse=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run first what forks for every call, as a fork takes the longer the more a worker holds.

    All workers have one order, whatever they collected first.
    """
    forking = {"mechanism", "black_box", "testing"}
    items.sort(key=lambda item: (forking.isdisjoint(item.path.parts), item.path))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was collected, which lives to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets; tests that need one are skipped where there is none."""
    folder = os.environ.get("DPAUDIT_DATA")
    if not folder:
        pytest.skip("DPAUDIT_DATA is not set: it names a folder of real data sets")
    return Path(folder)


@pytest.fixture(autouse=True)
def undrawn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without what their charts show: a process draws each page's.

    Long tests, and those in a browser, have the charts.
    """
    if not any(map(request.node.get_closest_marker, ("long", "browser"))):
        blank = '<svg class="marks" width="1" height="1" viewBox="0 0 1 1"></svg>'
        monkeypatch.setattr(
            "dpaudit.reports.render.page.svgs", lambda specs: [blank for _ in specs]
        )


@pytest.fixture
def unrounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases without their public grid, whose law is that of the noise to the last digit."""
    for module in ("training", "ranking_training"):
        name = f"dpaudit.defenses.social.{module}.rounded"
        monkeypatch.setattr(name, lambda values, steps: values.astype(np.float32))
    monkeypatch.setattr("dpaudit.defenses.federated.training.grid", lambda scale: scale * 2.0**-20)


@pytest.fixture
def unrepeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits that repeat nothing in fresh processes, whose start takes longer than many audits."""
    name = "dpaudit.audits.mechanism.audit.repeated"
    monkeypatch.setattr(name, lambda game, certificate, *_: (certificate, None))


@pytest.fixture(scope="module", autouse=True)
def repeatable_seeds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Draw the seeds of a module's audits alike in every run, so that none fails now and then."""
    source = np.random.default_rng(list(request.node.nodeid.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "dpaudit.bounds.frequentist.seeds.secrets.randbits",
            lambda bits: int(source.integers(2**bits)),
        )
        yield

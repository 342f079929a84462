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
    """Pages without what their charts show, unless a test is marked: a process draws them."""
    if not any(map(request.node.get_closest_marker, ("drawn", "browser"))):
        blank = '<svg class="marks" width="1" height="1" viewBox="0 0 1 1"></svg>'
        monkeypatch.setattr(
            "dpaudit.reports.render.page.svgs", lambda specs: [blank for _ in specs]
        )


@pytest.fixture
def unrounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases without their public grid, whose law is that of the noise to the last digit."""
    for module in ("training", "ranking"):
        name = f"dpaudit.defenses.social.{module}.rounded"
        monkeypatch.setattr(name, lambda values, steps: values.astype(np.float32))
    monkeypatch.setattr("dpaudit.defenses.federated.training.grid", lambda scale: scale * 2.0**-20)


@pytest.fixture
def unrepeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits that repeat nothing in fresh processes, whose start takes longer than many audits."""
    name = "dpaudit.audits.mechanism.audit.repeated"
    monkeypatch.setattr(name, lambda game, certificate, *_: (certificate, None))


class Seeds:
    """Seeds that a name decides, so that no test fails now and then."""

    def begin(self, name: str) -> None:
        """Draw from here on what belongs to this name."""
        self._source = np.random.default_rng(list(name.encode()))

    def draw(self, bits: int) -> int:
        """Draw a seed."""
        return int(self._source.integers(2**bits))


@pytest.fixture(scope="module", autouse=True)
def module_seeds(request: pytest.FixtureRequest) -> Iterator[Seeds]:
    """Draw the seeds of a module's audits alike in every run."""
    seeds = Seeds()
    seeds.begin(request.node.nodeid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpaudit.bounds.outcomes.secrets.randbits", seeds.draw)
        yield seeds


@pytest.fixture(autouse=True)
def own_seeds(request: pytest.FixtureRequest, module_seeds: Seeds) -> Iterator[None]:
    """Give a test the same seeds whichever other tests run."""
    module_seeds.begin(request.node.nodeid)
    yield
    module_seeds.begin(request.node.parent.nodeid)

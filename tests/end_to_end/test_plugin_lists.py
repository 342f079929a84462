"""What another package registers stands in every list that dpaudit makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError
from scratch_package import install  # type: ignore[import-not-found]

from dpaudit.audits.federated.config import FederatedConfig
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.cli import main
from dpaudit.config.schema import Config
from dpaudit.record.metric import Metric

ATTACK = '''
from typing import Any, ClassVar
from pydantic.dataclasses import dataclass
from dpaudit.attacks.base import Distinguisher, Form, MembershipInference, SubmissionTest
from dpaudit.core.releases import Observer, View
from dpaudit.core.plugin import STRICT
from dpaudit.defenses.factorization.sgd import SgdFactors


class Letter:
    """What only the attack of this package reads."""


@dataclass(frozen=True, config=STRICT)
class Mine(ROLE):
    """Says nothing."""

    shy: bool = False
    name: ClassVar[str] = "mine"
    title: ClassVar[str] = "says nothing"
    source: ClassVar[str] = "2026"
    usual: ClassVar[tuple[Form, ...]] = (Form(), Form({"shy": True}, "shy"))
    reads = ((Letter, Letter),)

    def score(self, *seen: Any) -> Any:
        """Return nothing."""

    def reader(self, pairs: Any) -> Any:
        """Return nothing."""


@dataclass(frozen=True, config=STRICT)
class Written(SgdFactors):
    """Writes letters."""

    name: ClassVar[str] = "written"

    def observers(self) -> Any:
        """Whoever reads them."""
        return {"letters": Observer((Letter, Letter), self._none, "letters", "letters", 16)}

    def _none(self, *_: Any) -> Any:
        yield View(Letter(), Letter())
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Install an attack of a role."""

    def put(role: str) -> None:
        site = tmp_path / "site"
        site.mkdir()
        points = {
            "dpaudit.attacks": "mine = scratch:Mine",
            "dpaudit.defenses": "written = scratch:Written",
        }
        install(site, monkeypatch, ATTACK.replace("ROLE", role), points)

    return put


def test_an_attack_on_membership_is_run_by_default(package: Any, tmp_path: Path) -> None:
    table = {"recommender": {"library": "most-popular"}}
    before = Config.model_validate(table)
    package("MembershipInference")
    config = Config.model_validate(table)
    assert isinstance(before, MembershipConfig)
    assert isinstance(config, MembershipConfig)
    labels = [attack.label for attack in config.inferring]
    assert labels[-2:] == ["mine", "mine shy"]
    assert labels[:3] == ["conjugate-lira", "regression-lira", "regression-lira joint"]
    # Results of attacks depend on its code.
    assert "scratch" in config.plugins
    with pytest.raises(ValidationError, match="'low-rank' or 'mine', or remove"):
        Config.model_validate({**table, "attack": {"name": "linear-ideal"}})
    path = tmp_path / "own.toml"
    done = CliRunner().invoke(main, ["init", str(path), "--recommender", "most-popular"])
    assert done.exit_code == 0, done.output
    named = "conjugate-lira, regression-lira, lira, rmia, global-threshold, low-rank, mine;"
    assert f"# by default {named}" in path.read_text()


def test_a_test_of_submissions_is_run_by_default(package: Any) -> None:
    table = {"model": {"defense": "fake-gradients"}, "transcript": {"rounds": [2]}}
    package("SubmissionTest")
    config = Config.model_validate(table)
    assert isinstance(config, FederatedConfig)
    labels = [attack.label for attack in config.submission_tests]
    assert labels[0] == "popularity (candidates)"
    assert labels[-2:] == ["mine", "mine shy"]
    assert "scratch" in config.plugins


def test_the_only_attack_that_reads_an_observer_is_its_default(package: Any) -> None:
    package("Distinguisher")
    config: Any = Config.model_validate({"model": {"defense": "written"}, "game": {"pair": "user"}})
    assert config.game[0].attack == "mine"


def test_a_metric_names_the_kind_of_audit_that_another_package_adds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = Metric("a.b", "w", "share", {"own": "with luck", "on_demand": ""})
    assert metric.sources == ("own with luck", "models on demand")
    code = """
from dpaudit.auditor.kind import AuditKind
from dpaudit.config.schema import Config

class OwnConfig(Config):
    title = "what is one's own"
    marks = frozenset({"own"})

class Own(AuditKind):
    name, config = "own", OwnConfig
    def subject(self):
        return None
    def measures(self):
        return ()

KIND = Own()
"""
    install(tmp_path, monkeypatch, code, {"dpaudit.audits": "own = scratch:KIND"})
    assert metric.sources == ("what is one's own with luck", "models on demand")

"""A config is of the kind of audit whose tables it has; its JSON schema has the tables of all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from scratch_package import install  # type: ignore[import-not-found]

from dpaudit.auditor.kind import kind_of
from dpaudit.audits.federated.config import FederatedConfig
from dpaudit.audits.mechanism.config import MechanismConfig
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.sybil.config import SybilConfig
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.load import load
from dpaudit.config.schema import Config, config_classes, json_schema, of_kind
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError

DEFENSE = {"kind": "python", "target": "a:b", "d": 1, "d_prime": 2, "epsilon": 1.0}
SGD = {"defense": "dpsgd-mf"}
FAKES = {"defense": "fake-gradients"}
OWN = {"library": "most-popular"}
KINDS: list[tuple[dict[str, Any], type[Config]]] = [
    ({}, OnDemandConfig),
    ({"model": {}}, OnDemandConfig),
    ({"model": [{"defense": "top-k"}], "convergence": {}}, OnDemandConfig),
    ({"sybil": {}}, SybilConfig),
    ({"model": {}, "sybil": [{}]}, SybilConfig),
    ({"model": SGD}, TrainedConfig),
    ({"model": [SGD], "train": {"folds": 2}}, TrainedConfig),
    ({"model": FAKES}, TrainedConfig),
    ({"model": FAKES, "transcript": {}}, FederatedConfig),
    ({"recommender": OWN}, MembershipConfig),
    ({"recommender": [OWN], "model": [SGD]}, MembershipConfig),
    ({"model": SGD, "membership": {}}, MembershipConfig),
    ({"defense": DEFENSE}, MechanismConfig),
]


@pytest.mark.cases(("tables", "kind"), KINDS)
def test_the_tables_say_the_kind(tables: dict[str, Any], kind: type[Config]) -> None:
    config = Config.model_validate({"seed": 1, **tables})
    assert type(config) is kind is of_kind(tables)[0]
    assert kind_of(config).config is kind
    assert Config.model_validate(config.model_dump(mode="json")) == config
    assert Config.model_validate_json(config.model_dump_json()) == config
    assert kind.model_validate({"seed": 1, **tables}) == config


@pytest.mark.cases(
    ("tables", "kind"),
    [
        ({"sybil": []}, OnDemandConfig),
        ({"model": SGD, "sybil": []}, TrainedConfig),
        ({"recommender": [], "model": {}}, OnDemandConfig),
        ({"recommender": OWN, "game": []}, MembershipConfig),
        ({"recommender": OWN, "sybil": []}, MembershipConfig),
    ],
)
def test_a_list_without_tables_requests_nothing(tables: dict[str, Any], kind: type[Config]) -> None:
    """An option such as `-s sybil=[]` takes the tables of a config out."""
    assert type(Config.model_validate(tables)) is kind


@pytest.mark.parametrize("model", [{}, SGD])
def test_what_a_kind_cannot_do_with_a_model_is_refused(model: dict[str, Any]) -> None:
    """Beside `[[sybil]]` and `[transcript]`, models have to fit."""
    with pytest.raises(ValidationError, match=r"\[transcript\] needs users who submit"):
        Config.model_validate({"model": model, "transcript": {}})
    if model:
        with pytest.raises((ValidationError, ConfigError), match=r"sybil.*remove it"):
            Config.model_validate({"model": model, "sybil": {}}).check_plugins()


def test_every_kind_has_a_config_of_its_own() -> None:
    configs = config_classes()
    assert len(configs) == len(set(configs)) == len(registry.every("audits"))
    assert {kind for _, kind in KINDS} <= set(configs)


@pytest.mark.cases(
    ("tables", "words"),
    [
        ({"defense": DEFENSE, "membership": {}}, ["[defense] audits", "[membership]"]),
        ({"recommender": OWN, "sybil": {}}, ["[recommender]", "[sybil]"]),
        ({"transcript": {}, "model": FAKES, "sybil": {}}, ["[transcript]", "[sybil]"]),
        ({"defense": DEFENSE, "transcript": {}}, ["[defense]", "[transcript]"]),
    ],
)
def test_two_kinds_are_two_configs(tables: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(tables)
    for word in [*words, "use two configs"]:
        assert word in str(caught.value)


@pytest.mark.cases(
    ("tables", "home", "own"),
    [
        ({"train": {}}, "trained recommenders", OnDemandConfig),
        ({"sybil": {}, "train": {}}, "trained recommenders", SybilConfig),
        ({"model": SGD, "split": {}}, "recommenders that serve on demand", TrainedConfig),
        ({"model": SGD, "convergence": {}}, "recommenders that serve on demand", TrainedConfig),
        (
            {"model": FAKES, "transcript": {}, "split": {}},
            "recommenders that serve on demand",
            FederatedConfig,
        ),
        ({"recommender": OWN, "train": {}}, "trained recommenders", MembershipConfig),
        (
            {"model": SGD, "membership": {}, "split": {}},
            "recommenders that serve on demand",
            MembershipConfig,
        ),
        ({"defense": DEFENSE, "train": {}}, "trained recommenders", MechanismConfig),
    ],
)
def test_a_table_of_another_kind_is_said_to_be_of_it(
    tables: dict[str, Any], home: str, own: type[Config]
) -> None:
    """Of the kinds that have a table, the plainest is named."""
    name = next(name for name in ("train", "split", "convergence") if name in tables)
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(tables)
    said = f"[{name}] is of audits of {home}, and this config audits {own.title}: remove it"
    assert said in str(caught.value)


@pytest.mark.cases("name", ["data", "model", "attack", "game"])
def test_a_table_of_several_kinds_is_refused_beside_a_mechanism(name: str) -> None:
    """What several kinds have is not said to be of the most special of them."""
    with pytest.raises(ValidationError) as caught:
        Config.model_validate({"defense": DEFENSE, name: {}})
    assert f"[{name}] is of audits of" in str(caught.value)
    assert f"this config audits {MechanismConfig.title}: remove it" in str(caught.value)
    assert FederatedConfig.title not in str(caught.value)


@pytest.mark.cases("tables", [tables for tables, _ in KINDS])
def test_a_table_of_no_kind_is_unknown(tables: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"trian\n.*Extra inputs are not permitted"):
        Config.model_validate({**tables, "trian": {}})


@pytest.mark.cases(
    "model", [3, "x", [3], {"defense": 3}, {"defense": ["x"]}, {"defense": None}, [[{}]]]
)
def test_a_model_that_is_none_is_refused(model: object) -> None:
    with pytest.raises(ValidationError, match="model"):
        Config.model_validate({"model": model})


def test_no_model_is_refused() -> None:
    with pytest.raises(ValidationError, match="nothing is audited: add a"):
        Config.model_validate({"model": []})


@pytest.mark.cases("values", [None, 3, "x", [], [{}]])
def test_what_is_no_table_is_of_no_kind(values: object) -> None:
    with pytest.raises(ValidationError):
        Config.model_validate(values)


def test_only_a_mechanism_stops_when_decided() -> None:
    audit = {"stop": "when-decided"}
    with pytest.raises(ValidationError, match=r"audit\.stop = 'when-decided'"):
        Config.model_validate({"model": [{}], "audit": audit})
    defense = {"kind": "python", "target": "a:b", "d": 0, "d_prime": 1, "epsilon": 1.0}
    assert Config.model_validate({"defense": defense, "audit": audit}).audit.stop


def test_the_schema_has_the_tables_of_every_kind() -> None:
    schema = json_schema()
    for kind in config_classes():
        assert set(kind.model_fields) <= set(schema["properties"])
    assert {"Train", "Transcript", "Split", "Sybil", "Membership"} <= set(schema["$defs"])
    assert "PythonDefense" in schema["$defs"]


SCRATCH = '''
from typing import Annotated, ClassVar

from pydantic import Field

from dpaudit.auditor.kind import AuditKind
from dpaudit.config.model import Table
from dpaudit.config.schema import Config


class Number(Table):
    """A function that is audited by one number.

    Attributes:
        label: its name in reports.
        epsilon: the claimed values of ε.
    """

    label: str = "mine"
    epsilon: list[float] = [1.0]


class NumberConfig(Config):
    """A config of a function.

    Attributes:
        number: the function.
    """

    title: ClassVar[str] = "functions by one number"
    marks: ClassVar[frozenset[str]] = frozenset({"number"})

    number: Number

    @property
    def audited(self):
        return [self.number]


class Numbers(AuditKind):
    """Audits of functions by one number."""

    name: ClassVar[str] = "number"
    title: ClassVar[str] = "functions by one number"
    config: ClassVar = NumberConfig

    def subject(self):
        raise NotImplementedError

    def measures(self):
        return ()


KIND = Numbers()
'''


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package with a kind of audit."""
    install(tmp_path, monkeypatch, SCRATCH, {"dpaudit.audits": "number = scratch:KIND"})


@pytest.mark.usefixtures("scratch")
def test_a_kind_of_another_package_is_found_by_its_table() -> None:
    config = Config.model_validate({"number": {"epsilon": [2.0]}})
    assert type(config).__name__ == "NumberConfig"
    assert [table.epsilon for table in config.audited] == [[2.0]]
    assert type(config) is of_kind({"number": {}})[0]
    kind = kind_of(config)
    assert (kind.name, kind.config) == ("number", type(config))
    assert not kind.measures()
    assert not kind.forecast(config)
    schema = json_schema()
    assert schema["properties"]["number"]
    assert "Number" in schema["$defs"]


def test_a_kind_that_is_registered_under_another_name_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, SCRATCH, {"dpaudit.audits": "figure = scratch:KIND"})
    path = tmp_path / "audit.toml"
    path.write_text("[number]\nepsilon = [2.0]\n")
    with pytest.raises(ConfigError, match=r"number is not known.*the name 'number'"):
        load(path)


@pytest.mark.usefixtures("scratch")
@pytest.mark.cases(
    ("tables", "said"),
    [
        ({"number": {}, "data": {}}, "and this config audits functions by one number: remove it"),
        ({"number": {}, "membership": {}}, "[number] functions by one number: use two configs"),
        ({"number": {"label": 3}}, "number.label"),
    ],
)
def test_its_config_is_checked_like_the_others(tables: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(tables)
    assert said in str(caught.value)


@pytest.mark.usefixtures("scratch")
@pytest.mark.cases(("tables", "kind"), KINDS)
def test_it_takes_no_config_of_the_others(tables: dict[str, Any], kind: type[Config]) -> None:
    assert of_kind(tables)[0] is kind


def test_without_the_package_its_table_is_unknown() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Config.model_validate({"number": {}})

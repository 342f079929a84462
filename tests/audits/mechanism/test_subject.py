"""A config that names a mechanism as Python code: `[defense] kind = "python"`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from configs import load_as  # type: ignore[import-not-found]

from dpaudit.audits.mechanism.audit import audit_pairs
from dpaudit.audits.mechanism.config import MechanismConfig
from dpaudit.cli import main
from dpaudit.config import load as config_file
from dpaudit.core.errors import ConfigError
from dpaudit.record import storage as record

EVIL = "<script>alert(1)</script> `x` | [red]y[/red]"
MODULE = '''
import asyncio
"""A module that a user keeps beside a config."""
import pathlib
import sys

import numpy as np

pathlib.Path(__file__).with_name("imported").write_text("")


def laplace(data, rng):
    """Laplace noise EVIL

    The docstring's rest is not shown.
    """
    # Rounded, as the low bits of a floating sum reveal its summands.
    return round(float(np.sum(data)) + rng.laplace(), 6)


def many(data, rng, n):
    return np.round(float(np.sum(data)) + rng.laplace(size=n), 6)


def kind_of(data, rng):
    return type(data).__name__ if rng.random() < 0.9 else "other"


def raises(data, rng):
    raise ValueError("first line\\nsecond line")


def leaves(data, rng):
    sys.exit(0)


def closes(data, rng):
    raise GeneratorExit


def stops(data, rng):
    raise StopIteration


def is_cancelled(data, rng):
    raise asyncio.CancelledError


class Mute(Exception):
    def __str__(self):
        raise ValueError


def cannot_say(data, rng):
    raise Mute


class Leaver(Exception):
    def __str__(self):
        raise SystemExit(0)


def leaves_as_it_speaks(data, rng):
    raise Leaver


def says_much(data, rng):
    raise ValueError("m" * 2_000)


def steers(data, rng):
    raise ValueError("\\x1b]52;c;ZXZpbA==\\x07")


def opaque(data, rng):
    return object()


class Callable:
    """An instance that is called."""

    def __call__(self, data, rng):
        return laplace(data, rng)


INSTANCE = Callable()
NUMBER = 3
PAIRS = [([0], [1e-6]), ([0], [3]), ([0], [1e-6])]
EMPTY = []


def make_pairs():
    return [[np.array([0.0]), np.array([1e-6])], [np.array([0.0]), np.array([3.0])]]


def broken_pairs():
    raise KeyError("no such thing")


def itself(outputs):
    return outputs


def fails(outputs):
    raise RuntimeError("no score today")


def repeated(outputs):
    return np.repeat(outputs, 2)
'''.replace("EVIL", EVIL)


class Project:
    """A folder with a module and a config, and what running it says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        # A module of the same name, imported by another test, would be found instead.
        self.module = "own_" + re.sub(r"\W", "_", folder.name)
        self.config = folder / "audit.toml"
        (folder / f"{self.module}.py").write_text(MODULE)
        self.write()

    def write(self, *, head: str = "", tail: str = "", **defense: str) -> None:
        """The config, with these TOML values in its table; an empty one leaves the key out."""
        values = {
            "kind": "'python'",
            "target": f"'{self.module}:laplace'",
            "d": "[0.0, 0.0]",
            "d_prime": "[0.0, 1.0]",
            "epsilon": "1.0",
            **{key: value.replace("own:", f"{self.module}:") for key, value in defense.items()},
        }
        lines = [f"{key} = {value}" for key, value in values.items() if value]
        text = "\n".join(["seed = 5", head, "[defense]", *lines, "[audit]", "trials = 1000", tail])
        self.config.write_text(text)

    def run(self, *arguments: object) -> Result:
        command = ["run", self.config, "-o", self.out, "--force", *arguments]
        return CliRunner().invoke(main, [str(part) for part in command])

    @property
    def imported(self) -> bool:
        """Whether the module was imported, so that its code ran."""
        return (self.folder / "imported").exists()

    def measurement(self) -> Any:
        return record.load(self.out).measurements[0]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def refused(result: Result, code: int, *words: str) -> None:
    """That exit code, one sentence after lines of progress, nothing on standard output."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    *progress, sentence = result.stderr.splitlines()
    assert sentence.startswith("dpaudit: ")
    assert all(" trials (" in line for line in progress)
    for word in words:
        assert word in sentence
    assert "defect" not in sentence


@pytest.mark.long
def test_code_is_run_only_if_allowed(project: Project) -> None:
    refused(
        project.run(),
        2,
        f"would run the code named by defense.target = '{project.module}:laplace'",
        "--allow-code",
    )
    plan = CliRunner().invoke(main, ["plan", str(project.config)])
    refused(plan, 2, "--epsilon 1")
    assert not project.imported
    assert not project.out.exists()
    assert sorted(path.name for path in project.folder.iterdir()) == [
        "audit.toml",
        f"{project.module}.py",
    ]
    assert project.run("--allow-code", "-q").exit_code == 0
    assert project.imported


def test_the_library_asks_too(project: Project) -> None:
    from dpaudit.auditor.run import run_audit

    config = config_file.load(project.config)
    with pytest.raises(ConfigError, match="allow_code=True"):
        run_audit(config)
    assert not project.imported


@pytest.mark.long
def test_modules_beside_the_config_are_found_from_anywhere(
    project: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    # Neither the search path nor what is imported already helps.
    assert project.module not in sys.modules
    assert str(project.folder) not in [str(Path(folder).resolve()) for folder in sys.path]
    command = ["run", str(project.config), "-o", str(elsewhere / "out"), "--allow-code"]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    assert f"{project.module}:laplace" in done.output
    assert (elsewhere / "out" / "report.html").is_file()


@pytest.mark.long
def test_the_record_holds_what_the_audit_found(project: Project) -> None:
    project.write(target="'own:many'", batched="true", delta="1e-3")
    assert project.run("--allow-code", "-q").exit_code == 0
    many = sys.modules[project.module].many
    direct = audit_pairs(
        many, [([0.0, 0.0], [0.0, 1.0])], delta=1e-3, trials=1000, batched=True, seed=5
    )
    result = record.load(project.out)
    (measured,) = result.measurements
    assert measured.estimate == direct.epsilon
    assert measured.event == str(direct.event)
    assert (measured.attack, measured.pair, measured.metric) == (direct.score, "given", "epsilon")
    assert (result.data, result.outcome, result.family.size) == (None, "no decision", 1)
    claim = result.points[0].claim
    assert claim is not None
    assert (claim.epsilon, claim.delta, claim.adjacency) == (1.0, 1e-3, "as given")
    assert set(result.config) == {
        *("seed", "keep_seed", "audit", "gate", "waiver", "defense", "card")
    }


@pytest.mark.long
@pytest.mark.parametrize("pairs", ["own:PAIRS", "own:make_pairs"])
def test_the_most_telling_of_the_named_pairs_is_audited(project: Project, pairs: str) -> None:
    project.write(d="", d_prime="", pairs=f"'{pairs}'", search="200")
    assert project.run("--allow-code", "-q").exit_code == 1
    result = record.load(project.out)
    number = 3 if pairs == "own:PAIRS" else 2
    assert result.pairs[0].summary.endswith(f" of {number} given, number 1")
    # The other pairs show nothing.
    assert project.measurement().estimate.lower > 0.5


@pytest.mark.long
def test_a_score_of_one_s_own_and_an_instance(project: Project) -> None:
    project.write(target="'own:INSTANCE'", score="'own:itself'", label="'mine'")
    assert project.run("--allow-code", "-q").exit_code == 0
    result = record.load(project.out)
    assert result.models[0].label == "mine"
    assert result.models[0].title == "An instance that is called."
    assert result.attacks["itself"]["source"] == f"{project.module}:itself"
    # All trials certify, except the few that are left out.
    assert project.measurement().estimate.n > 850


@pytest.mark.cases(
    ("changes", "code", "words"),
    [
        (
            {"target": "'own:laplac'"},
            2,
            ["defense.target", "laplac", "define it in", "correct the name"],
        ),
        ({"target": "'no_such_module_here:f'"}, 2, ["ModuleNotFoundError"]),
        ({"target": "'.own:f'"}, 2, ["defense.target", "is not package.module:name"]),
        ({"target": "'laplace'"}, 2, ["'laplace' is not package.module:name"]),
        ({"target": "'own:'"}, 2, ["is not package.module:name"]),
        ({"target": "':laplace'"}, 2, ["is not package.module:name"]),
        ({"target": "'own:NUMBER'"}, 2, ["defense.target", "cannot be called"]),
        ({"target": "'own:opaque'"}, 2, ["own_", "returned object"]),
        ({"target": "'own:raises'"}, 3, ["raised ValueError: first line second line"]),
        ({"target": "'own:leaves'"}, 3, ["raised SystemExit: 0"]),
        ({"target": "'own:closes'"}, 3, ["raised GeneratorExit"]),
        ({"target": "'own:stops'"}, 3, ["raised StopIteration"]),
        ({"target": "'own:is_cancelled'"}, 3, ["raised CancelledError"]),
        ({"target": "'own:cannot_say'"}, 3, ["raised Mute;"]),
        ({"target": "'own:leaves_as_it_speaks'"}, 3, ["raised Leaver;"]),
        ({"target": "'own:says_much'"}, 3, ["raised ValueError: mmm", "m…;"]),
        ({"target": "'own:steers'"}, 3, ["raised ValueError:  ]52;c;"]),
        ({"batched": "true"}, 3, ["raised TypeError"]),
        ({"score": "'own:itsel'"}, 2, ["defense.score", "itsel"]),
        ({"score": "'learnt'"}, 2, ["defense.score = 'learnt' is not package.module:name"]),
        ({"score": "'own:NUMBER'"}, 2, ["defense.score", "cannot be called"]),
        ({"score": "'own:repeated'"}, 2, ["score returned 2000 numbers for 1000 outputs"]),
        ({"score": "'own:fails'"}, 3, ["or its score raised RuntimeError: no score today"]),
        ({"pairs": "'own:NUMBER'"}, 2, ["defense.pairs", "TypeError"]),
        ({"pairs": "'own:broken_pairs'"}, 2, ["defense.pairs", "KeyError"]),
        ({"pairs": "'own:no_pairs'"}, 2, ["defense.pairs", "no_pairs"]),
        ({"pairs": "'own:EMPTY'"}, 2, ["at least one pair"]),
        ({"tail": "[[gate]]\nmetric = 'utility.rmse'\nmax = 1"}, 2, ["is not measured"]),
    ],
)
def test_code_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, changes: dict[str, Any], code: int, words: list[str]
) -> None:
    project = Project(tmp_path)
    if "pairs" in changes:
        changes |= {"d": "", "d_prime": ""}
    project.write(**changes)
    refused(project.run("--allow-code"), code, *words)
    assert not project.out.exists()


@pytest.mark.cases(
    "text", ["import sys\nsys.exit(0)", "raise RuntimeError('a\\nb')", "def broken(:"]
)
def test_a_module_that_cannot_be_imported_is_one_sentence(tmp_path: Path, text: str) -> None:
    """Otherwise its exit code would be taken for a gate's outcome."""
    project = Project(tmp_path)
    (project.folder / f"{project.module}.py").write_text(text)
    refused(project.run("--allow-code"), 2, "cannot be imported (")


@pytest.mark.cases(
    ("changes", "words"),
    [
        ({"d": ""}, "give d and d_prime, or pairs"),
        ({"d": "", "d_prime": ""}, "give d and d_prime, or pairs"),
        ({"pairs": "'own:PAIRS'"}, "give d and d_prime, or pairs"),
        ({"d_prime": "", "pairs": "'own:PAIRS'"}, "give d and d_prime, or pairs"),
        ({"kind": "'pyton'"}, "'python'"),
        ({"kind": ""}, "defense.kind"),
        ({"target": ""}, "defense.target"),
        ({"target": "3"}, "defense.target = 3"),
        ({"epsilon": ""}, "defense.epsilon"),
        ({"epsilon": "0"}, "greater than 0"),
        ({"epsilon": "inf"}, "finite"),
        ({"epsilon": "nan"}, "defense.epsilon = nan"),
        ({"delta": "1"}, "less than 1"),
        ({"search": "100"}, "greater than or equal to 200"),
        ({"tagret": "'x'"}, "did you mean 'target'?"),
        ({"tail": "[[model]]"}, "[model] is of audits of"),
        ({"tail": "[data]"}, "[data] is of audits of"),
        ({"tail": "[split]"}, "[split] is of audits of"),
        ({"tail": "[[attack]]"}, "[attack] is of audits of"),
        ({"tail": "[[game]]"}, "[game] is of audits of"),
        ({"head": "[[defense]]"}, "TOML"),
    ],
)
def test_wrong_tables_are_refused(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    project = Project(tmp_path)
    project.write(**changes)
    refused(project.run("--allow-code"), 2, "audit.toml", words)
    assert not project.imported


GATE = "[[gate]]\nmetric = 'epsilon'\nmax = 'claim'\ndetectable = "


@pytest.mark.long
@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"tail": GATE + "3"}, 0, "the same game finds"),
        ({"epsilon": "0.1", "d_prime": "[0.0, 4.0]", "tail": GATE + "3"}, 1, "above 0.1"),
        ({"tail": GATE + "1.01"}, 4, "use more audit.trials"),
        (
            {"d_prime": "[0.0, 4.0]", "tail": (GATE + "3").replace("'claim'", "0.001")},
            1,
            "above 0.001",
        ),
        (
            {"label": "'mine'", "tail": GATE + "3\nwhere = { model = 'mine', pair = 'given' }"},
            0,
            "mine",
        ),
    ],
)
def test_the_exit_code_comes_from_the_gates(
    project: Project, changes: dict[str, str], code: int, words: str
) -> None:
    project.write(**changes)
    result = project.run("--allow-code")
    assert result.exit_code == code, result.output
    said = " ".join(result.stdout.split())
    assert ("PASS", "FAIL", "", "", "INCONCLUSIVE")[code] in said
    assert words in said
    # The finished run reports the same, without the code.
    (project.folder / f"{project.module}.py").unlink()
    again = CliRunner().invoke(main, ["gate", str(project.out)])
    assert again.exit_code == code
    assert words in " ".join(again.stdout.split())


@pytest.mark.long
def test_a_policy_judges_a_finished_run(project: Project) -> None:
    # What a mutant with three times the claim showed is in the record.
    project.write(tail=GATE + "3")
    assert project.run("--allow-code", "-q").exit_code == 0
    policy = project.folder / "policy.toml"
    for text, code in ((GATE + "3", 0), (GATE + "1.01", 4), (GATE + "3\nwhere = {model='x'}", 2)):
        policy.write_text(text)
        result = CliRunner().invoke(main, ["gate", str(project.out), "--policy", str(policy)])
        assert result.exit_code == code, result.output


@pytest.mark.long
def test_reports_show_foreign_words_as_they_are(project: Project) -> None:
    """The label and the docstring are no markup of HTML, of Markdown or of a terminal."""
    project.write(label=f"'{EVIL}'", adjacency=f"'{EVIL}'", tail=GATE + "3")
    result = project.run("--allow-code")
    assert result.exit_code == 0
    assert EVIL.replace(" ", "") in re.sub(r"\s", "", result.stdout)
    html = (project.out / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "docstring&#39;s rest" not in html
    markdown = (project.out / "report.md").read_text(encoding="utf-8")
    outside = markdown.partition("```toml")[0]
    assert "<script" not in outside.replace("\\<", "")
    assert "Laplace noise \\<script\\>alert(1)" in outside
    content = json.loads((project.out / "record.json").read_text(encoding="utf-8"))
    assert content["models"][0]["title"] == f"Laplace noise {EVIL}"
    for name, file in (("html", "report.html"), ("md", "report.md"), ("json", "record.json")):
        again = CliRunner().invoke(main, ["report", str(project.out), "--format", name])
        assert again.exit_code == 0
        assert again.stdout == (project.out / file).read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize(
    ("d", "kind"),
    [
        ("'word'", "str"),
        ("true", "bool"),
        ("[[1, 2.5], [3]]", "list"),
        ("{ a = [1], 'b c' = { d = 'e' } }", "dict"),
    ],
)
def test_the_report_s_toml_repeats_the_run(project: Project, d: str, kind: str) -> None:
    """Every kind of data set reaches the mechanism, and comes back from the report."""
    project.write(
        target="'own:kind_of'",
        d="'a word'" if kind != "str" else "1",
        d_prime=d,
        label=f"'{EVIL} \" ```'",
        tail=GATE + "3",
    )
    assert project.run("--allow-code", "-q").exit_code == 1
    first = project.measurement()
    assert first.estimate.lower > 1
    report = (project.out / "report.md").read_text(encoding="utf-8")
    before = load_as(MechanismConfig, project.config)
    project.config.write_text(report.partition("```toml\n")[2].rpartition("\n```")[0])
    assert config_file.load(project.config).model_dump() == before.model_dump()
    assert type(before.defense.d_prime).__name__ == kind
    assert project.run("--allow-code", "-q").exit_code == 1
    assert project.measurement() == first


def config_seed(project: Project) -> Any:
    return record.load(project.out).config["seed"]


@pytest.mark.long
def test_a_seed_is_drawn_printed_and_recorded(project: Project) -> None:
    text = project.config.read_text().replace("seed = 5\n", "")
    project.config.write_text(text)
    said = project.run("--allow-code").stdout
    seed, first = config_seed(project), project.measurement()
    assert f"Seed: {seed}" in said
    assert project.run("--allow-code", "-q").exit_code == 0
    assert config_seed(project) != seed
    # The record's seed runs the same audit again.
    assert project.run("--allow-code", "-q", "--seed", seed).exit_code == 0
    assert (config_seed(project), project.measurement()) == (seed, first)


@pytest.mark.long
def test_a_secret_seed_is_kept_only_if_asked(project: Project) -> None:
    # An exact claim is found to be false by chance in one run of twenty.
    secret = ["--allow-code", "-q", "-s", "audit.fail_on_false_claim=false", "--seed"]
    assert project.run(*secret, "entropy").exit_code == 0
    assert config_seed(project) == "entropy"
    for name in ("record.json", "report.html", "report.md"):
        assert "entropy" in (project.out / name).read_text(encoding="utf-8")
    first = project.measurement()
    assert project.run(*secret, "entropy").exit_code == 0
    assert project.measurement() != first
    assert project.run(*secret, "entropy", "-s", "keep_seed=true").exit_code == 0
    seed, first = config_seed(project), project.measurement()
    assert project.run(*secret, seed).exit_code == 0
    assert project.measurement() == first


@pytest.mark.cases(
    ("arguments", "words"),
    [
        (("--seed", "tomorrow"), "neither a 64-bit integer nor entropy"),
        (("--seed", "-1"), "neither a 64-bit integer"),
        (("--seed", 2**64), "neither a 64-bit integer"),
        (("-s", "seed=tomorrow"), "seed = 'tomorrow' is neither a 64-bit integer"),
        (("-s", "keep_seed=false"), "keep_seed = false needs seed = 'entropy'"),
    ],
)
def test_what_is_no_seed_is_refused(
    tmp_path: Path, arguments: tuple[object, ...], words: str
) -> None:
    project = Project(tmp_path)
    refused(project.run("--allow-code", *arguments), 2, words)


def test_equal_data_sets_are_refused(project: Project) -> None:
    project.write(d="[0.0, 1.0]")
    refused(project.run("--allow-code"), 2, "holds the same data set twice")


@pytest.mark.long
def test_the_power_is_that_found_on_a_mutant(project: Project) -> None:
    project.write(score="'own:itself'", tail=GATE + "3")
    assert project.run("--allow-code", "-q").exit_code == 0
    control = project.measurement().control
    assert "ε = 3 planted in the values" in control.mutant
    assert (control.factor, control.found) == (3, True)
    assert 1 < control.certified <= 3
    # Among several gates, the one with the smallest violation sets the limit and the control.
    more = "\n" + GATE.replace("'claim'", "1.2") + "2"
    project.write(score="'own:itself'", tail=GATE + "3" + more)
    project.run("--allow-code", "-q")
    control = project.measurement().control
    assert "ε = 2.4 planted in the values" in control.mutant
    assert control.factor == 2.4


@pytest.mark.long
def test_a_broken_claim_needs_no_control(project: Project) -> None:
    project.write(epsilon="0.1", d_prime="[0.0, 4.0]", score="'own:itself'", tail=GATE + "3")
    assert project.run("--allow-code", "-q").exit_code == 1
    assert project.measurement().control is None


@pytest.mark.long
def test_a_mechanism_without_noise_is_called_so(project: Project) -> None:
    (project.folder / f"{project.module}.py").write_text(
        MODULE + "\ndef exact(data, rng):\n    return [2 * data[0], data[-1]]\n"
    )
    project.write(target="'own:exact'", score="'learned'")
    said = " ".join(
        project.run(
            "--allow-code", "--report", f"sarif={project.folder}/found.sarif"
        ).stdout.split()
    )
    assert "gave the same output, " in said
    assert "noiseless-release" in (project.folder / "found.sarif").read_text(encoding="utf-8")


def test_a_state_between_calls_is_told(project: Project) -> None:
    (project.folder / f"{project.module}.py").write_text(
        MODULE + "\nCOUNT = iter(range(10**9))\ndef counts(data, rng):\n    return next(COUNT)\n"
    )
    project.write(target="'own:counts'", score="'own:itself'")
    said = " ".join(project.run("--allow-code").stdout.split())
    assert "with the number of the call" in said
    assert record.load(project.out).pairs[0].drift is not None
    for name in ("report.html", "report.md"):
        text = (project.out / name).read_text(encoding="utf-8")
        assert "with the number of the call" in text


@pytest.mark.long
def test_a_process_for_every_call_keeps_no_state(project: Project) -> None:
    (project.folder / f"{project.module}.py").write_text(
        MODULE + "\nCOUNT = iter(range(10**9))\ndef counts(data, rng):\n"
        "    return next(COUNT) + rng.laplace()\n"
    )
    project.write(target="'own:counts'", score="'own:itself'", isolate="'process'")
    assert project.run("--allow-code", "-q", "-s", "audit.trials=200").exit_code == 0
    result = record.load(project.out)
    assert result.pairs[0].drift is None
    assert result.models[0].params["isolate"] == "process"


@pytest.mark.long
def test_what_is_not_repeated_is_told_and_passes_no_gate(project: Project) -> None:
    """Noise that is cached for each data set. False-failure rate 1e-6."""
    (project.folder / f"{project.module}.py").write_text(
        MODULE + "\nimport functools\n@functools.cache\ndef noise(data):\n"
        "    return round(np.random.default_rng().laplace(), 6)\n\n"
        "def once(data, rng):\n    return noise(tuple(data))\n"
    )
    project.write(target="'own:once'", score="'own:itself'", tail=GATE + "3")
    options = ("-s", "audit.trials=400", "-s", "audit.confidence=0.999999")
    result = project.run("--allow-code", *options)
    assert result.exit_code == 4, result.output
    said = " ".join(result.stdout.split())
    assert "do not repeat the ε of at least" in said
    assert "and fresh processes do not repeat" in said
    assert project.measurement().estimate.lower == 0


@pytest.mark.long
def test_exceptions_are_told(project: Project) -> None:
    (project.folder / f"{project.module}.py").write_text(
        MODULE + "\ndef raising(data, rng):\n    if data[1] and rng.random() < 0.5:\n"
        "        raise ValueError('no answer')\n    return rng.normal()\n"
    )
    project.write(target="'own:raising'")
    result = project.run("--allow-code")
    assert result.exit_code == 1, result.output
    said = " ".join(result.stdout.split())
    assert "raised exceptions, which are outputs, " in said
    assert " ValueError: no answer" in said


@pytest.mark.long
def test_a_refuted_claim_ends_the_run(project: Project) -> None:
    """ε = 1 where 0.05 is claimed."""
    project.write(target="'own:laplace'", epsilon="0.05", tail=GATE + "3")
    options = ("-s", "audit.trials=20000", "-s", "audit.stop=when-decided")
    result = project.run("--allow-code", *options)
    assert result.exit_code == 1, result.output
    estimate = project.measurement().estimate
    assert 0.05 < estimate.lower <= 1
    assert estimate.n < 4000
    assert "at any time" in estimate.method
    summary = record.load(project.out).pairs[0].summary
    assert re.search(r"\d+ of at most 20000 .* ε = 0.05", summary)


def test_a_stop_decides_on_the_claim_alone(project: Project) -> None:
    project.write(target="'own:laplace'", tail=GATE.replace("'claim'", "3.0") + "3")
    result = project.run("--allow-code", "-s", "audit.stop=when-decided")
    assert result.exit_code == 2
    assert "a gate has another limit" in " ".join(result.output.split())

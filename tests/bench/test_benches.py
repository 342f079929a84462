"""Every bench runs once, small, and fails unless what it compares is the same; times are free.

A bench runs in a process of its own. Its output and its page are compared without their numbers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
BENCH = ROOT / "bench"
_NUMBER = re.compile(r"[-−]?\b\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?\b")
_START = """
from pathlib import Path
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
few = SyntheticParams(n_users=60, n_items=50, mean_per_user=22, mean_friends=2, seed=1)
"""


class Bench(NamedTuple):
    """A script, and its small run.

    Attributes:
        needs: the packages of its extra, and those that it imports.
        call: what runs it.
        prints: its output, each number as `#`; nothing if it writes a page.
        page: the name of its page.
        real: whether it reads real data.
    """

    needs: tuple[str, ...]
    call: str
    prints: str = ""
    page: str = ""
    real: bool = False


SCRIPTS = {
    "big_data": Bench(
        ("pyarrow",),
        "import sys; sys.argv[1:] = '--users 200 --items 99 --ratings 999 --rounds 1'.split(); "
        "big_data.main()",
        "# users × # items, # ratings\n"
        + "".join(
            f"{name}.{kind} {reader} # M rows/s of CPU time # of wall time # × the columns "
            "# MB in the separate process\n"
            for name in ("sorted", "random", "random, text")
            for kind in ("csv", "parquet")
            for reader in ("dpaudit", "pyarrow")
        ),
    ),
    "dp_training": Bench(
        ("torch", "opacus"),
        "dp_training.main(1, 0, ('half',)); dp_training.epsilons((4.0,), 20)",
        "half: noise-size found #, line right #, of #\n"
        + 2
        * (
            "# of the noise: stated #, observed # to #, of a user with # rows #, "
            "# canaries certify #, power #\n"
        ),
    ),
    "execution": Bench(
        ("distributed",),
        "execution.main(1, 544, few)",
        """
        # trainings, # cores, median of # rounds (least to most)
        two threads against one # (# to #) times as fast
        two processes against one thread # (# to #) times as fast
        two Dask workers against one thread # (# to #) times as fast
        the store's overhead # (# to #) %
        one Dask worker's overhead # (# to #) %
        what a cluster has to carry
        empty tasks on # # a second
        empty tasks on # # a second
        empty tasks on processes:# # a second
        empty tasks on dask:# # a second
        data of a game, once a worker # MiB
        a task and its result # bytes
        """,
    ),
    "federated": Bench(
        (),
        "federated.main(few, 1)",
        "# pairs, # coordinates\n"
        + "".join(
            f"{work} # M coordinates/s # % of the noise source\n"
            for work in (
                "made, noised and summed",
                "made, noised, summed and kept",
                "a whole round, users learn, all shown",
                "a whole round, noise drawn in sums",
                "observed by zero-mean z",
                "observed by zero-mean t",
                "observed by zero-mean sign",
                "observed by energy",
                "observed by gradient-ratio gradient",
                "observed by gradient-ratio model",
            )
        ),
    ),
    "large_models": Bench(
        ("cornac", "surprise", "implicit"),
        "large_models.main(generate(few), (16, 32, 128))",
        """
        million updates a second
        d plain laplace langevin G normals/s cornac Surprise implicit
        # # # # # # # #
        # # # # # # # #
        # # # # # # # #

        KiB that an update moves beyond a cache of the size
        """
        + "".join(
            f"d = # {order} # beyond # KiB # beyond # MiB # M updates/s\n"
            for order in (
                "popular items first, in groups",
                "items in groups at random",
                "user by user",
                "rows at random",
            )
        ),
    ),
    "membership": Bench(
        ("implicit",),
        "membership.main(generate(SyntheticParams()), 1, 8)",
        "models a second: # ratings, # scores and # lists of #, one thread\n"
        + "".join(
            f"{variant} sixteen together #\none # # times slower\none, all pairs # # times slower\n"
            for variant in ("nonprivate", "published", "corrected")
        )
        + """
        seconds of an audit: # trainings, MovieLens-100K, two workers
        ALS of implicit, # factors #
        dpsgd-mf, corrected, d = # #
        """,
        real=True,
    ),
    "membership_attacks": Bench(
        ("implicit", "torch"),
        "from dpaudit.recommenders.most_popular import MostPopular as model\n"
        "membership_attacks.CALIBRATING, membership_attacks.JUDGED = (0, 1), 2\n"
        "membership_attacks.MODELS = {'popular': membership_attacks.Model(model, trainings=4)}\n"
        "membership_attacks.main(['--models', 'popular'], standalone_mode=False)",
        """
        popular c threshold (scores) conjugate (scores) R (scores) S (asked-rows) \
S + R (asked-rows) strongest (asked-rows)
        # # / # ± # - - # / # ± # - # / # ± #
        # # / # ± # # / # ± # # / # ± # # / # ± # # / # ± # # / # ± #
        """,
        real=True,
    ),
    "membership_peers": Bench(
        ("privacy_guard", "torch", "implicit"),
        "membership_peers.main(Path('page.md'), 48, 2, 5, 1)",
        page="membership-peers",
        real=True,
    ),
    "pass_controls": Bench(
        (),
        "pass_controls.main('--models 1 --targets 400 --limit 0.1 --laws normal --rates 2 '"
        "'--trainings 3'.split(), standalone_mode=False)",
        "normal # rate # GO now (rule alone) #: # (#)",
    ),
    "published": Bench(
        ("torch",),
        "data, least = published.movielens(), published.replace\n"
        "models = {name: least(each, epochs=1) for name, each in published.DEFAULTS.items()}\n"
        "published.main(models, data.only(data.user < 60))",
        """
        random nDCG recall published seconds
        most popular # # #
        mf # # #
        ncf # # # # #
        two-tower # # #
        lightgcn # # # # #
        multvae # # #
        last nDCG hits seconds
        """
        + "".join(
            f"{model} # # #\n"
            for model in (
                "most popular",
                "mf",
                "ncf",
                "two-tower",
                "lightgcn",
                "multvae",
                "sasrec",
                "sasrec, times shuffled",
                "gru4rec",
                "gru4rec, times shuffled",
            )
        ),
        real=True,
    ),
    "social": Bench(
        (),
        "social.main({'Few': few}, 1)",
        """
        Few: # ratings, # users, # items
        privsr, nonprivate # ms a round # times the noise source
        privsr, published # ms a round # times the noise source
        privsr-ranking, nonprivate, # triples # ms a round # times the noise source
        privsr-ranking, published, # triples # ms a round # times the noise source
        # folds on # threads: # times as fast as on one
        """,
    ),
    "speed": Bench(
        ("jax_privacy", "surprise", "implicit"),
        "speed.main(Path('page.md'), generate(few), 20_000, 1)",
        page="speed",
    ),
}
SCRIPTS["tune"] = Bench(
    (),
    "import sys; sys.argv[1:] = ['--searches', '1']; tune.main()",
    "false GO at most, for # to # candidates: #, #, #, #\n"
    "settings | search | budget | GO | and next exceeds | p > .05 | none found | within # % of the "
    "best | trainings used\n"
    + "".join(
        f"{world} | {way} | # | # | # | # | # | # | #\n"
        for world, way in (
            *(("some_pass", "tuned") for _ in range(4)),
            *((world, "tuned") for world in ("none_pass", "at_eight")),
            *(
                (world, way)
                for world in ("some_pass", "none_pass", "at_eight")
                for way in ("grid", "by_hand")
            ),
        )
    ),
)
SHARED = {"bench_peers", "conftest", "membership_coverage"}
TESTS = {"test_factors", "test_lists", "test_similarity"}


def words(text: str) -> list[str]:
    """The lines that are not empty, without numbers and repeated blanks."""
    lines = (" ".join(_NUMBER.sub("#", line).split()) for line in text.splitlines())
    return [line for line in lines if line]


def ended(command: list[str], folder: Path) -> str:
    found = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_every_bench_is_run_here() -> None:
    assert {path.stem for path in BENCH.glob("*.py")} == {*SCRIPTS, *SHARED, *TESTS}


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_bench_compares_the_same_and_says_what(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bench = SCRIPTS[name]
    for package in bench.needs:
        pytest.importorskip(package)
    if bench.real:
        request.getfixturevalue("real_data")
    start = f"import sys\nsys.path.insert(0, {str(BENCH)!r})\nimport {name}\n{_START}"
    printed = ended([sys.executable, "-c", start + bench.call], tmp_path)
    assert words(printed) == words(bench.prints)
    if bench.page:
        shown = (ROOT / "docs" / "results" / f"{bench.page}.md").read_text(encoding="utf-8")
        assert words((tmp_path / "page.md").read_text(encoding="utf-8")) == words(shown)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(TESTS))
def test_what_a_bench_times_gives_what_it_should(name: str) -> None:
    for package in ("pytest_benchmark", "surprise", "implicit"):
        pytest.importorskip(package)
    options = ["-n", "0", "--benchmark-disable", "-p", "no:cacheprovider", "-m", ""]
    printed = ended([sys.executable, "-m", "pytest", *options, f"bench/{name}.py"], ROOT)
    assert re.search(r"^\d+ passed in", printed, re.MULTILINE), printed

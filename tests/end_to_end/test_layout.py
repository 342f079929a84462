"""The tests mirror the package: a stranger finds the test of a module at the module's own path."""

from __future__ import annotations

from pathlib import Path

import dpaudit

TESTS, PACKAGE = Path(__file__).parents[1], Path(dpaudit.__file__).parent
# What spans several modules.
BESIDE = {
    "bench",
    "browser",
    "cases",
    "ci",
    "contract",
    "docs",
    "end_to_end",
    "fuzz",
    "papers",
    "standard_bench",
    "support",
}


def test_every_test_module_begins_with_the_name_of_a_module_or_folder() -> None:
    lost = []
    for path in TESTS.rglob("test_*.py"):
        place = path.relative_to(TESTS)
        if place.parts[0] in BESIDE:
            continue
        folder = PACKAGE / place.parent
        names = {module.stem for module in folder.glob("*.py")} | {folder.name}
        said = path.stem.removeprefix("test_")
        if not any(said == name or said.startswith(f"{name}_") for name in names):
            lost.append(place.as_posix())
    assert lost == []


def test_the_package_has_at_most_five_files_beside_its_folders() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 5

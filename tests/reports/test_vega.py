"""Charts for a user without a home folder."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CODE = """
import os, pathlib, pwd
def missing(uid):
    raise KeyError(uid)
pwd.getpwuid = missing  # as for a user without an entry
os.environ.pop("HOME", None)
from dpaudit.reports import vega
print(vega.SCHEMA_VERSION, "HOME" in os.environ)
"""


@pytest.mark.long
def test_charts_need_no_home_folder() -> None:
    said = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert said.stdout.split()[1] == "False"


@pytest.mark.skipif(not os.environ.get("HOME"), reason="there is no home folder")
def test_a_home_folder_stays() -> None:
    before = os.environ["HOME"]
    from dpaudit.reports import vega

    assert vega.SCHEMA_VERSION

    assert os.environ["HOME"] == before

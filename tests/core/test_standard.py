"""The command's own streams, and what code of others prints to."""

from __future__ import annotations

import subprocess
import sys

import pytest

SEPARATE = """
import os, subprocess, sys
from dpaudit.core.standard import streams
streams.separate()
"""


def run(code: str, redirected: str = "") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", SEPARATE + code]
    shell = ["sh", "-c", f'"$@" {redirected}', "sh", *words]
    return subprocess.run(shell, capture_output=True, text=True, check=False)


def test_what_code_of_others_prints_goes_to_standard_error() -> None:
    said = run("""
print("help")
streams.lend()
print("1")
os.write(1, b"2\\n")
subprocess.run(["echo", "3"], check=True)
streams.output.write("result")
""")
    assert said.stdout == "help\nresult"
    assert said.stderr == "1\n2\n3\n"


def test_without_a_command_the_streams_are_those_of_sys() -> None:
    from dpaudit.core.standard import streams

    streams.lend()
    assert (streams.output, streams.errors) == (sys.stdout, sys.stderr)


@pytest.mark.parametrize("redirected", ["2>&-", "2>/dev/full", ">&-", "<&- >&- 2>&-"])
def test_a_stream_that_cannot_be_written_changes_nothing(redirected: str) -> None:
    said = run(
        """
print("1", file=sys.stderr, flush=True)
streams.lend()
print("2", flush=True)
print("3", file=sys.stderr, flush=True)
streams.errors.write("4")
streams.errors.flush()
assert os.open(os.devnull, os.O_RDONLY) > 2
""",
        redirected,
    )
    assert said.returncode == 0
    assert said.stdout == ""


def test_a_full_standard_output_is_an_error_once() -> None:
    said = run(
        """
for _ in range(2):
    try:
        print("1", flush=True)
    except OSError as error:
        print("full", file=sys.stderr)
""",
        ">/dev/full",
    )
    assert (said.returncode, said.stderr) == (0, "full\n")


def test_a_pipe_that_does_not_block_takes_all() -> None:
    said = run(
        """
os.set_blocking(1, False)
streams.output.write(200_000 * "1")
""",
        "| (sleep 0.2; wc -c)",
    )
    assert (said.stdout.strip(), said.stderr) == ("200000", "")


def test_what_the_encoding_lacks_is_escaped() -> None:
    shell = ["sh", "-c", 'PYTHONIOENCODING=ascii exec "$@"', "sh"]
    code = SEPARATE + "print('ε'); streams.lend(); print('δ')"
    said = subprocess.run(
        [*shell, sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (said.stdout, said.stderr) == ("\\u03b5\n", "\\u03b4\n")

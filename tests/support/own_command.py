"""A command that trains popularity, and goes wrong in the way that its first argument names.

It uses the standard library alone, so that it starts quickly: python own_command.py WAY TASK.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

WAY, TASK = sys.argv[1], json.loads(Path(sys.argv[2]).read_text())
MODEL = Path(TASK["pairs"]).with_name("model.json")
# Tells a test how many trainings there were, or which processes were started.
NOTES = Path(os.environ.get("NOTES", os.devnull))


def rows(name: str) -> list[dict[str, str]]:
    with open(TASK[name], newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, header: list[str], table: list[list[Any]]) -> None:
    with open(TASK[name], "w", newline="") as file:
        csv.writer(file).writerows([header, *table])


def popularity() -> tuple[list[list[Any]], list[list[Any]]]:
    """Scores of pairs by the number of interactions, and the most popular items for everybody."""
    counts = [0] * TASK["n_items"]
    for row in rows("interactions"):
        counts[int(row["item"])] += 1
    if WAY == "forgets":
        if TASK["forget"]:
            counts = json.loads(MODEL.read_text())
            for row in rows("forget"):
                counts[int(row["item"])] -= 1
        MODEL.write_text(json.dumps(counts))
    pairs = [(int(row["user"]), int(row["item"])) for row in rows("pairs")]
    best = sorted(range(len(counts)), key=lambda item: -counts[item])[: TASK["k"]]
    return (
        [[user, item, counts[item]] for user, item in pairs],
        [[row["user"], rank, item] for row in rows("users") for rank, item in enumerate(best, 1)],
    )


def trainings() -> int:
    with NOTES.open("a") as file:
        file.write("x")
    return len(NOTES.read_text())


def start(*words: str) -> None:
    """Start a process that nobody ends, and note its number beside our own."""
    NOTES.write_text(f"{os.getpid()} {subprocess.Popen(words).pid}")


SCORES, LISTS = popularity()
SCORES_HEADER, LISTS_HEADER = ["user", "item", "score"], ["user", "rank", "item"]

if WAY == "crashes":
    print("reading the task")
    raise SystemExit("out of luck")
if WAY == "crashes when it forgets" and TASK["forget"]:
    raise SystemExit("cannot forget")
if WAY == "writes nothing when it forgets" and TASK["forget"]:
    raise SystemExit
if WAY == "removes its folder":
    shutil.rmtree(MODEL.parent)
    raise SystemExit
if WAY == "every third" and trainings() % 3 == 0:
    raise SystemExit("the third one")
if WAY == "hangs":
    start("sleep", "60")
    print("waiting", flush=True)
    time.sleep(60)
if WAY == "hangs silently":
    os.close(1)
    os.close(2)
    time.sleep(60)
if WAY == "leaves a grandchild":
    start("sleep", "60")
if WAY == "leaves a printing grandchild":
    start("yes")
if WAY == "prints 200 MB":
    print("first line", flush=True)
    for _ in range(200):
        os.write(1, b"0123456789abcde\n" * 2**16)
    print("last line", flush=True)
if WAY == "prints latin-1":
    os.write(2, "caf\xe9 \x1b[31mred\x1b[0m\n10 %\r20 %\r\n\x07bell\n".encode("latin-1"))
    raise SystemExit(1)
if WAY == "is killed":
    os.kill(os.getpid(), signal.SIGKILL)
if WAY == "writes nothing":
    raise SystemExit
if WAY == "writes empty files":
    Path(TASK["scores"]).touch()
    Path(TASK["lists"]).touch()
    raise SystemExit
if WAY == "writes a pipe":
    os.mkfifo(TASK["scores"])
    raise SystemExit
if WAY == "writes NaN":
    SCORES[1][2] = "nan"
if WAY == "writes an empty cell":
    SCORES[1][2] = ""
if WAY == "writes inf":
    SCORES[1][2] = "inf"
if WAY == "writes text":
    SCORES[1][2] = "high"
if WAY == "writes a wrong user":
    SCORES[1][0] = TASK["n_users"]
if WAY == "writes a pair twice":
    SCORES.append(SCORES[0])
if WAY == "writes half":
    SCORES = SCORES[::2]
if WAY == "writes a long list":
    LISTS.insert(TASK["k"], [LISTS[0][0], TASK["k"] + 1, TASK["n_items"] - 1])
if WAY == "changes its shape" and TASK["seed"] % 2:
    LISTS_HEADER, LISTS = ["user", *LISTS_HEADER[2:]], [[row[0], row[2]] for row in LISTS]
if WAY == "prints its environment":
    names = ("DPAUDIT_TASK", "DPAUDIT_SEED", "NOTES")
    print(*(os.environ[name] for name in names), os.getcwd(), *sys.argv[3:])

if TASK["histories"]:
    last = {row["history"]: int(row["item"]) for row in rows("histories")}
    asked = [(row["history"], int(row["item"])) for row in rows("after")]
    after = [[one, item, item - last[one]] for one, item in asked if one in last]
    write("after_scores", ["history", "item", "score"], after)
write("scores", SCORES_HEADER, SCORES)
write("lists", LISTS_HEADER, LISTS)

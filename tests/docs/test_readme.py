"""The README's commands for one's own data, run as they stand there on small data."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

from tests.support import commands

pytestmark = commands.in_one_process

README = (Path(__file__).parent.parent.parent / "README.md").read_text()
SECTION = README.split("## Use your own data")[1].split("\n## ")[0]
COMMANDS = re.findall(r"^    ((?:ofcl|tail) .*)$", SECTION, re.MULTILINE)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def only(*words):
    """The README's one command that has these words, without its comment."""
    (found,) = [line for line in COMMANDS if all(word in line for word in words)]
    return shlex.split(found, comments=True)


def start(arguments, **options):
    assert arguments[0] == "ofcl"
    command = [sys.executable, "-m", "ofcl.cli.main", *arguments[1:]]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=ENVIRONMENT, **options)  # fmt: skip


def run(arguments, **options):
    """Runs a command that needs nothing; what it prints."""
    assert arguments[0] == "ofcl"
    code, out, err = commands.ofcl(*arguments[1:], **options)
    assert code == 0, err
    return out


def finish(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def the_run(folder):
    (directory,) = (folder / "runs").iterdir()
    return directory


def photos(folder):
    draw = np.random.default_rng(0)
    for c, name in enumerate(("cat", "dog", "bird", "fish")):
        (folder / "photos" / name).mkdir(parents=True)
        for n in range(30):
            pixels = draw.integers(0, 60, (40 + n % 3, 50, 3), dtype=np.uint8)
            pixels[:, :, c % 3] += np.uint8(60 + 60 * (c // 3))
            Image.fromarray(pixels).save(folder / "photos" / name / f"{n}.jpg")


def patients(path, seed=0, diagnoses=("healthy", "flu", "asthma"), n=90):
    draw = np.random.default_rng(seed)
    lines = ["age,pulse,diagnosis"]
    for i in range(n):
        d = i % len(diagnoses)
        lines.append(f"{draw.normal(40 + 10 * d):.1f},{draw.normal(70 + 9 * d):.1f},{diagnoses[d]}")
    path.write_text("\n".join(lines) + "\n")


def test_from_a_file_to_a_prediction(tmp_path):
    """The three commands of the first screen, on a table with a category and gaps."""
    first = README.split("## Use it")[0]
    learn, ask = (
        shlex.split(line, comments=True)
        for line in re.findall(r"^    (ofcl .*)$", first, re.MULTILINE)
    )
    draw, lines = np.random.default_rng(0), ["age;ward;crp;diagnosis"]
    for n in range(120):
        crp = "" if n % 10 == 0 else f"{draw.normal(10 + 20 * (n % 2), 3):.1f}".replace(".", ",")
        lines.append(
            f"{20 + n % 60};{'north' if n % 3 else 'south'};{crp};{'ill' if n % 2 else 'well'}"
        )
    (tmp_path / "patients.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "new.csv").write_text("age;ward;crp\n50;north;31,5\n50;west;8,5\n")
    run(learn, cwd=tmp_path)
    answers = run(ask, cwd=tmp_path).splitlines()
    header, *rows = (line.split(",") for line in answers)
    assert {"label", "probability", "uncertainty"} <= set(header)
    assert [row[header.index("label")] for row in rows] == ["ill", "well"]


def test_every_command_of_the_section_is_tested_here():
    assert len(COMMANDS) == 6


def test_images(tmp_path):
    photos(tmp_path)
    shown = run(only("inspect photos"), cwd=tmp_path)
    assert "image files" in shown
    assert re.search(r"cat +30", shown)
    run(only("--dataset photos"), cwd=tmp_path)
    result = json.loads((the_run(tmp_path) / "result.json").read_text())
    assert len(result["accuracy"][0]) == 2  # two tasks of two classes
    assert result["A"] > 90


def test_texts(tmp_path, monkeypatch):
    words = {"sport": "the team won the match", "food": "boil the rice and stir the soup"}
    rows = [f"{topic},{text} {n}" for n in range(15) for topic, text in words.items()]
    (tmp_path / "letters.csv").write_text("topic,body\n" + "\n".join(rows) + "\n")
    monkeypatch.setenv("OFCL_DATA", str(tmp_path / "data"))
    result = json.loads(run([*only("letters.csv"), "--json"], cwd=tmp_path))
    assert len(list((tmp_path / "data" / "embeddings").iterdir())) == 1
    assert result["A"] is not None


def test_a_table(tmp_path):
    patients(tmp_path / "patients.csv")
    run(only("patients.csv"), cwd=tmp_path)
    result = json.loads((the_run(tmp_path) / "result.json").read_text())
    assert result["A"] is not None


def test_watched_folders_and_ctrl_c(tmp_path):
    for ward in ("ward-a", "ward-b"):
        (tmp_path / ward).mkdir()
    process = start(only("watch:ward-a"), cwd=tmp_path)
    assert "waiting for the first sample" in process.stderr.readline()
    for n, ward in enumerate(("ward-a", "ward-b")):
        patients(tmp_path / ward / "monday.csv", n, n=450)
    try:
        for _ in range(600):
            if list(tmp_path.glob("runs/*/events.jsonl")):
                events = (the_run(tmp_path) / "events.jsonl").read_text()
                if events.count('"learned"') == 90:
                    break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "stopped; go on with: ofcl resume" in err
    events = [json.loads(line) for line in (the_run(tmp_path) / "events.jsonl").open()]
    assert sum(event["event"] == "appeared" for event in events) == 3
    assert sum(event["event"] == "round" for event in events) == 9


def test_lines_of_json(tmp_path):
    """`tail -f` never ends by itself: it is stopped, and the pipe with it."""
    line = only("tail", "--stream -")
    tail, arguments = line[: line.index("|")], line[line.index("|") + 1 :]
    draw = np.random.default_rng(0)
    rows = [json.dumps({"x": draw.normal(n % 2, 0.1, 3).tolist(), "y": n % 2}) for n in range(40)]
    (tmp_path / "readings.jsonl").write_text("\n".join(rows) + "\n")
    lines = subprocess.Popen([*tail[:1], "-n", "+1", *tail[1:]], cwd=tmp_path,
                             stdout=subprocess.PIPE)  # fmt: skip
    process = start([*arguments, "--json"], cwd=tmp_path, stdin=lines.stdout)
    assert "waiting for the first sample" in process.stderr.readline()  # tail has written by then
    lines.kill()
    result = json.loads(finish(process))
    assert sum(part["samples"] for part in result["anytime"]) == 40


def test_the_iterator_is_a_python_example():
    """tests/docs/test_docs.py runs all of those; this one must be among them."""
    blocks = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    assert any("ofcl.run(streams=[" in block for block in blocks)

"""The log of the commands: plain lines, or lines of JSON."""

import json
import logging

import pytest

from ofcl.cli.logs import as_line, log_to_terminal
from ofcl.cli.terminal import say, say_error, warn


@pytest.fixture(autouse=True)
def as_before():
    logger = logging.getLogger("ofcl")
    before = logger.handlers, logger.level, logger.propagate
    yield
    logger.handlers, logger.level, logger.propagate = before


def test_plain_lines_are_what_people_read(capsys):
    log_to_terminal()
    say("3 [bold] clients")
    warn("odd\x1b[2J")
    say_error("wrong")
    assert capsys.readouterr().err == "3 [bold] clients\nwarning: odd·[2J\nerror: wrong\n"


@pytest.mark.parametrize("way", ["option", "variable"])
def test_lines_of_json(capsys, monkeypatch, way):
    if way == "variable":
        monkeypatch.setenv("OFCL_LOG", "json")
    log_to_terminal(as_json=way == "option")
    warn('a "quoted"\nname')
    logging.getLogger("ofcl.storage").info("of a part")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("time").endswith("+00:00")
    assert first == {"level": "warning", "logger": "ofcl.cli", "message": 'a "quoted"\nname'}
    assert (second["logger"], second["level"]) == ("ofcl.storage", "info")


def test_lines_for_a_terminal_that_the_log_does_not_reach(capsys):
    """The server of a federation has its standard error in a file."""
    log_to_terminal()
    assert as_line("hospital-a is connected") == "hospital-a is connected"
    log_to_terminal(as_json=True)
    try:
        line = json.loads(as_line("hospital-a is connected"))
    finally:
        log_to_terminal()
    assert (line["level"], line["message"]) == ("info", "hospital-a is connected")

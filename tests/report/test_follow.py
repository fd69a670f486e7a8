"""A served report changes with its runs, and is for this machine alone."""

import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.xdist_group("report")  # the demo's runs are made once


def test_a_served_report_changes_with_the_run(followed):
    events, address = followed

    def ask(tag=None):
        headers = {"If-None-Match": tag} if tag else {}
        request = urllib.request.Request(address, headers=headers)
        with urllib.request.urlopen(request) as answer:
            return answer.headers["ETag"], answer.read().decode()

    tag, page = ask()
    assert "not finished: task 1 of 3" in page
    with pytest.raises(urllib.error.HTTPError, match="304"):
        ask(tag)
    for _ in events:
        pass
    later, page = ask(tag)
    assert later != tag
    assert "not finished" not in page
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address + "settings.toml")
    # A name of somebody else's that was made to lead here.
    evil = urllib.request.Request(address, headers={"Host": "evil.example.com"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(evil)


def test_a_served_report_says_what_is_wrong(followed, tmp_path):
    events, address = followed
    for _ in events:
        pass
    (tmp_path / "run" / "result.json").write_text("{")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(address)
    assert error.value.code == 503
    assert "result.json' cannot be read" in error.value.read().decode()

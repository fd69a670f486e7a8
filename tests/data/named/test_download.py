"""Downloads, and what to do without a network."""

import io

import pytest

from ofcl.data.named import download
from ofcl.data.named.catalogue import DATASETS
from ofcl.data.named.download import Archive, fetch
from ofcl.errors import OfclError
from tests.support.official_files import FILES, load, newsgroups


@pytest.mark.parametrize("name", sorted(FILES))
def test_without_network_the_error_says_which_files_go_where(tmp_path, monkeypatch, name):
    def no_network(*arguments, **options):
        raise OSError("Name or service not known")

    monkeypatch.setattr("pooch.retrieve", no_network)
    monkeypatch.setattr("datasets.load_dataset", no_network)
    with pytest.raises(OfclError) as error:
        load(name, tmp_path)
    for file in DATASETS[name].files:
        assert file in str(error.value)
    assert str(tmp_path) in str(error.value)
    assert "Name or service not known" in str(error.value)


def test_what_is_downloaded_is_checked_and_unpacked(tmp_path, http_server):
    """A real download, of a small archive from a server on this machine."""
    import hashlib
    import tarfile

    served = tmp_path / "served"
    newsgroups(served)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for part in ("train", "test"):
            archive.add(served / f"20news-bydate-{part}", f"20news-bydate-{part}")
    (served / "news.tar.gz").write_bytes(buffer.getvalue())
    url = f"{http_server(served)}/news.tar.gz"
    right = "sha256:" + hashlib.sha256(buffer.getvalue()).hexdigest()
    with pytest.raises(OfclError, match="cannot be downloaded.*hash"):
        fetch(Archive(url, "sha256:" + "0" * 64, "news.tar.gz"), tmp_path / "root")
    assert not (tmp_path / "root" / "20news-bydate-train").exists()
    fetch(Archive(url, right, "news.tar.gz"), tmp_path / "root")
    assert DATASETS["20newsgroups"].present(tmp_path / "root")
    assert not (tmp_path / "root" / "news.tar.gz").exists()


def test_an_archive_cannot_write_elsewhere(tmp_path):
    import tarfile

    path = tmp_path / "evil.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo("../outside")
        archive.addfile(info, io.BytesIO(b""))
    with pytest.raises(tarfile.OutsideDestinationError):
        download._unpack(path, tmp_path / "root")
    assert not (tmp_path / "outside").exists()

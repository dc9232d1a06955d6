"""Addresses of servers are read, and shown without passwords."""

from pathlib import Path

import numpy as np
import pytest

from labeltree.cli.commands.index_command import run
from labeltree.cli.main import main
from labeltree.errors import DataError
from labeltree.index import Index
from labeltree.index.addresses import Address, is_address, shown_place
from labeltree.index.checked_settings import model_path
from labeltree.taxonomy import Taxonomy


def test_what_an_address_names() -> None:
    one = Address.parse(
        "postgresql://me:s3cr%23t@db.example:5433/photos?sslmode=require&password=other#birds"
    )
    assert (one.kind, one.name) == ("postgresql", "birds")
    assert one.target == "postgresql://me:s3cr%23t@db.example:5433/photos?sslmode=require&password=other"
    assert one.shown == "postgresql://me@db.example:5433/photos?sslmode=require&password=***#birds"
    assert "s3cr" not in repr(one)
    assert one.without_secrets("s3cr%23t or s3cr#t\nand other") == "*** or *** and ***"
    two = Address.parse("qdrant+https://:k3y@host:6333/pre/birds")
    assert (two.kind, two.name, two.target, two.api_key) == (
        "qdrant",
        "birds",
        "https://host:6333/pre",
        "k3y",
    )
    assert two.shown == "qdrant+https://host:6333/pre/birds"
    assert "k3y" not in repr(two)
    three = Address.parse("qdrant:/some/folder#fish")
    assert (three.target, three.name, three.is_folder) == ("/some/folder", "fish", True)
    assert Address.parse("postgresql:///db").name == "labeltree"


def test_what_is_an_address() -> None:
    assert is_address("postgres://host/db")
    assert not any(map(is_address, ["runs/a", "/tmp/postgresql", "C:\\index", "postgresql", "s3://bucket"]))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr#t@host/db",
        "postgresql://me:s3/cr@host/db",
        "postgresql://me:s3?cr@host/db#birds",
        "postgresql://me:s3cr@host/db#bi rds",
        "qdrant+http://:s3/cr@host:6333/birds",
        "qdrant+http://:s3cr@host:6333/",
        "qdrant+http://host:s3cr/birds/",
    ],
)
def test_an_address_that_cannot_be_read_is_not_repeated(url: str) -> None:
    if url.endswith("6333/"):
        assert Address.parse(url).name == "labeltree"
        return
    with pytest.raises(DataError) as caught:
        Address.parse(url)
    assert "s3" not in str(caught.value)
    assert "cr" not in str(caught.value).replace("characters", "")


def test_passwords_are_not_in_errors_of_a_server() -> None:
    with pytest.raises(DataError, match="PostgreSQL reports a problem") as caught:
        Index.open("postgresql://me:s3cr3t@127.0.0.1:1/db?connect_timeout=2#birds")
    assert "s3cr3t" not in str(caught.value)
    with pytest.raises(DataError, match="Qdrant reports a problem") as caught:
        Index.open("qdrant+http://:s3cr3t@127.0.0.1:1/birds")
    assert "s3cr3t" not in str(caught.value)


def test_the_command_makes_and_describes_an_index_by_its_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Taxonomy.from_paths(["a/x", "b"]).save(tmp_path / "t.taxonomy.json")
    np.savez(tmp_path / "t.npz", embeddings=np.eye(3, dtype=np.float32), labels=["x", "b", "a"])
    url = "qdrant::memory:#by_command"
    run(["--embeddings", str(tmp_path / "t.npz"), "--out", url, "--geometry", "cosine"])
    assert len(Index.open(url)) == 3
    capsys.readouterr()
    run([url, "--delete", "0"])
    assert f"index     {url}\nsamples   2" in capsys.readouterr().out


def test_places_are_shown_without_passwords() -> None:
    assert shown_place("postgresql://me:s3cr3t@host/db#birds") == "postgresql://me@host/db#birds"
    assert shown_place("postgresql://me:s3cr#t@host/db") == "postgresql:..."
    assert shown_place("mysql://me:s3cr3t@host/db") == "mysql://..."
    assert shown_place(Path("runs/birds")) == "runs/birds"


@pytest.mark.parametrize("url", ["postgresql://me:s3cr3t@127.0.0.1:1/db", "qdrant+http://:s3cr3t@[::1]:1/a"])
@pytest.mark.parametrize(
    "words",
    [
        "index URL",
        "index URL --info",
        "index URL --add FILE",
        "index URL --delete a",
        "index URL --out elsewhere",
        "index --embeddings FILE --taxonomy tree.json --out URL",
        "search URL --id a",
        "duplicates URL",
        "suspects URL",
        "label-next URL",
        "explore URL --port 0",
    ],
)
def test_no_command_shows_the_password_of_an_index(
    url: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Taxonomy.from_paths(["a", "b"]).save("tree.json")
    np.savez("t.npz", embeddings=np.eye(2, dtype=np.float32), labels=["a", "b"])
    assert main([url if word == "URL" else word.replace("FILE", "t.npz") for word in words.split()]) == 2
    said = capsys.readouterr()
    assert "s3cr3t" not in said.out + said.err
    assert "Traceback" not in said.err


def test_the_page_of_an_index_is_announced_without_the_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from labeltree.serving.explorer import open_explorer as opening

    monkeypatch.setattr(opening, "explore", lambda options: options.say("http://127.0.0.1:8000"))
    assert main(["explore", "postgresql://me:s3cr3t@host/db#birds"]) == 0
    said = capsys.readouterr().out
    assert said == "exploring postgresql://me@host/db#birds at http://127.0.0.1:8000; Ctrl-C ends it\n"


def test_the_run_of_an_index_on_a_server_keeps_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert model_path(".", "qdrant:run/vectors#birds") == str(tmp_path)
    assert model_path(".", "index") == ".."

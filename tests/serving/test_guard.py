"""Who may ask a service or an explorer: by the name of the host, the page, and the token."""

import pytest

from labeltree.serving.guard import Guard, host_of

TOKEN = "0123456789abcdef-token"
HERE = {"host": "localhost:8000"}


@pytest.mark.parametrize(
    ("sent", "refused"),
    [
        ({}, False),
        ({"sec-fetch-site": "same-origin"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site"}, True),
        ({"sec-fetch-site": "same-site"}, True),  # a page of another port of this host
        ({"origin": "http://localhost:8000"}, False),
        ({"origin": "http://LOCALHOST:8000"}, False),
        ({"origin": "http://localhost:9000"}, True),
        ({"origin": "http://strange.test"}, True),
        ({"origin": "null"}, True),
    ],
)
def test_other_pages_are_refused_but_may_lead_here(sent: dict[str, str], refused: bool) -> None:
    guard = Guard(None, None, pages=("/", "/docs"))
    found = guard.refusal("/api/search", "POST", HERE | sent)
    assert (None if found is None else found[0]) == (403 if refused else None)
    assert guard.refusal("/docs", "GET", HERE | sent) is None


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("localhost", True),
        ("LocalHost.:80", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("mine.test", True),
        ("MINE.test.:1", True),
        ("strange.test", False),
        ("localhost.strange.test", False),
        ("localhost@strange.test", False),
        ("localhost/strange", False),
        ("", False),
        ("localhost:port", False),
    ],
)
def test_hosts_are_known_by_their_names(host: str, known: bool) -> None:
    found = Guard(None, None, ("Mine.test.",)).refusal("/", "GET", {"host": host})
    assert (None if found is None else found[0]) == (None if known else 421)
    if host_of(host) is not None:
        assert Guard(None, None, None).refusal("/", "GET", {"host": host}) is None, "any name is taken"


@pytest.mark.parametrize(
    ("path", "guarded"),
    [
        ("/", False),
        ("/health", False),
        ("/page.js", False),
        ("/api/session", False),
        ("/api/search", True),
        ("/docs", True),
        ("/openapi.json", True),
    ],
)
def test_a_token_guards_what_holds_data(path: str, guarded: bool) -> None:
    guard = Guard(None, TOKEN)
    cookie = str(guard.cookie_for(TOKEN, HERE["host"])).partition(";")[0]
    for sent, known in (
        ({}, False),
        ({"authorization": f"bearer {TOKEN}"}, True),
        ({"authorization": f"Basic {TOKEN}"}, False),
        ({"authorization": f"Bearer {TOKEN}x"}, False),
        ({"cookie": cookie}, True),
        ({"cookie": cookie.replace("8000", "9000")}, False),
        ({"cookie": f"{cookie.partition('=')[0]}={TOKEN}"}, False),
    ):
        found = guard.refusal(path, "GET", HERE | sent)
        assert (None if found is None else found[0]) == (401 if guarded and not known else None), sent
    assert guard.cookie_for(f"{TOKEN}x", HERE["host"]) is None
    assert Guard(None, None).cookie_for("", HERE["host"]) is None
    assert Guard(None, TOKEN).refusal("/api/search", "GET", HERE | {"cookie": cookie}), "of another process"

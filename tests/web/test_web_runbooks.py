"""The page of runbooks: the document of this version, one section a rule."""

from __future__ import annotations

import re

import pytest

from monitor.alerting.rules.rule_settings import RuleKind
from monitor.web.page.shell import POLICY
from monitor.web.settings import ServerSettings
from tests.servers import free_port
from tests.web.site import Site

PORT = free_port()


async def test_each_rule_has_its_section(site: Site) -> None:
    """The anchor of a rule's link is a heading, and links inside the page lead to one."""
    answer = await site.get("/runbooks")
    assert answer.status == 200
    headings = dict(re.findall(r'<h[23] id="([^"]+)">([^<]+)</h[23]>', answer.text))
    assert {str(kind) for kind in RuleKind} <= headings.keys()
    assert headings["datapreprunfailed"] == "DataprepRunFailed"
    inside = re.findall(r'href="#([^"]+)"', answer.text[answer.text.index("<article") :])
    assert inside
    assert [anchor for anchor in inside if anchor not in headings] == []
    assert "<td>the rule raised an error, a bug of the monitor</td>" in answer.text


async def test_the_runbooks_are_a_page_as_the_others_are(site: Site) -> None:
    """One title, the same policy, nothing that it forbids, and no link that leads nowhere."""
    answer = await site.get("/runbooks")
    assert answer.headers["Content-Security-Policy"] == POLICY
    article = answer.text[answer.text.index("<article") : answer.text.index("</article>")]
    assert answer.text.count("<h1") == 1
    assert not re.search(r"<(script|style|img)|style=|javascript:", article)
    assert re.findall(r'<a\b(?! href="#)[^>]*>', article) == []
    assert "config/README.md" in article


@pytest.mark.parametrize("settings", [ServerSettings(listen=f"127.0.0.1:{PORT}")], ids=["port"])
@pytest.mark.parametrize(
    ("url", "link"),
    [
        (f"http://127.0.0.1:{PORT}/runbooks#run_failed", "/runbooks#run_failed"),
        ("https://wiki.example/runbooks#run_failed", "https://wiki.example/runbooks#run_failed"),
    ],
    ids=["ours", "another"],
)
async def test_pages_link_to_our_runbooks_by_path_alone(site: Site, url: str, link: str) -> None:
    """So the link works under any name of this page; scripts get the whole address."""
    alert = site.alerting.alert(templates={"summary": "orders failed", "runbook_url": url})
    site.alerting.show(alert)
    for path in ("/", "/alerts", f"/alerts/{alert.fingerprint}"):
        assert f'href="{link}"' in (await site.get(path)).text, path
    assert (await site.get("/api/v1/alerts")).document["data"][0]["runbook"] == url

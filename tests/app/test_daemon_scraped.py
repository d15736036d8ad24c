"""A real Prometheus scrapes the daemon."""

from __future__ import annotations

from pathlib import Path

from monitor.catalogue.operations import Edition
from tests.app import fixture
from tests.app.eventually import eventually
from tests.app.scraping import prometheus


async def test_prometheus_scrapes_runs_and_their_exemplars(tmp_path: Path) -> None:
    """The target is up, the runs are counted there as here, and exemplars carry run ids."""
    workspace, kinds = fixture.sandbox(), fixture.kinds_of(Edition.RL)
    async with (
        fixture.started(workspace) as url,
        fixture.daemon(
            fixture.configuration(tmp_path, fixture.workspace_configuration(workspace, url))
        ) as face,
        prometheus(tmp_path, face.url) as scraper,
    ):
        await eventually(lambda: face.is_following("acme"), why="not followed")
        workspace.open_for_work()
        await fixture.until_ended(workspace, kinds, at_least=1)
        await fixture.until_quiet(workspace)
        happened = {
            kind: str(sum(results.values())) for kind, results in workspace.ledger.results().items()
        }
        scraped: dict[str, str] = {}

        async def agrees() -> bool:
            rows = await scraper.query("sum by (kind) (dataprep_runs_total)")
            scraped.update({row["metric"]["kind"]: row["value"][1] for row in rows})
            return scraped == happened

        await eventually(agrees, why=lambda: f"scraped {scraped}, happened {happened}")
        assert [row["value"][1] for row in await scraper.query("up")] == ["1"]
        received = await scraper.exemplars("dataprep_run_duration_seconds_bucket")
        named = {exemplar["labels"]["run_id"] for row in received for exemplar in row["exemplars"]}
        ended = {str(transition.run_id) for transition in workspace.ledger.transitions()}
        assert named
        assert named <= ended

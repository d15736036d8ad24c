"""A webhook task of ours at every configured flow, in a workspace that really runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from monitor.callbacks.listener import FLOW_HEADER, SECRET_HEADER
from monitor.callbacks.own_tasks import registered_at
from monitor.catalogue.operations import Edition
from monitor.model.errors import ConfigurationError, NotAvailableError, TryLaterError
from monitor.model.runs import PipelineKind
from monitor.model.secrets import Secret
from tests.callbacks.registering import TASKS, TEST, Scenario, open_scenario, secret_of
from tests.clocks import ManualClock


@pytest.fixture(params=[Edition.RL, Edition.PL])
async def scenario(
    request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Path
) -> AsyncIterator[Scenario]:
    async with open_scenario(clock, tmp_path, edition=request.param) as opened:
        yield opened


@pytest.fixture
async def rl(clock: ManualClock, tmp_path: Path) -> AsyncIterator[Scenario]:
    """For tests in which the edition makes no difference, this one is enough."""
    async with open_scenario(clock, tmp_path) as opened:
        yield opened


def states(scenario: Scenario) -> dict[str, int]:
    """Return the counts of `dataprep_monitor_webhook_tasks` that are not 0."""
    counts = scenario.live_state.workspaces["acme"].webhook_tasks
    return {state: count for state, count in counts.items() if count}


async def test_every_flow_gets_one_task(scenario: Scenario) -> None:
    """With ``*`` each flow has exactly one task: a secret of its own, variables and retry."""
    task_statuses = await scenario.registrar(scenario.settings("*")).sync()

    assert scenario.flows_with_tasks() == scenario.flow_ids()
    assert {status.state for status in task_statuses} == {"registered"}
    for task in scenario.tasks():
        assert task.headers[SECRET_HEADER] == secret_of(task.flow_id)
        assert task.headers[FLOW_HEADER] == str(task.flow_id)
    task = scenario.tasks()[0]
    assert task.body is not None
    assert "$jobId" in task.body
    assert "$jobStatus" in task.body
    assert (task.trigger_event, task.trigger_object, task.retry_on_failure) == (
        "onJobDone",
        "any",
        True,
    )
    assert states(scenario) == {"registered": len(scenario.flow_ids())}


async def test_another_sync_changes_nothing(rl: Scenario) -> None:
    """A correct task is read once and left alone."""
    registrar = rl.registrar(rl.settings("*"))
    await registrar.sync()
    before = [task.id for task in rl.tasks()]
    rl.gate.requests.clear()
    await registrar.sync()

    assert [task.id for task in rl.tasks()] == before
    assert {method for method, _ in rl.gate.requests} == {"GET"}
    assert len(rl.gate.requests) == len(before)


async def test_flows_are_chosen_by_id(rl: Scenario) -> None:
    """A flow that is named by its id gets a task, and no other."""
    chosen = rl.flow_ids()[2]
    await rl.registrar(rl.settings(str(chosen))).sync()

    assert rl.flows_with_tasks() == [chosen]


async def test_flows_of_one_name_all_get_a_task(rl: Scenario) -> None:
    """Two flows may have the same name; the name selects both."""
    chosen = rl.flow_ids("Daily sales")
    await rl.registrar(rl.settings("Daily sales", "no such flow")).sync()

    assert len(chosen) == 2
    assert rl.flows_with_tasks() == chosen


async def test_the_url_is_tried_once_before_the_first_task(rl: Scenario) -> None:
    """The workspace calls the listener before any task is created, and never again after."""
    registrar = rl.registrar(rl.settings("*"))
    await registrar.sync()
    methods = [path for method, path in rl.gate.requests if method == "POST"]

    assert methods[0] == TEST
    assert methods.count(TEST) == 1
    outcome = {"outcome": "test"}
    assert rl.registry.get_sample_value("dataprep_monitor_callback_requests_total", outcome) == 1


async def test_no_task_is_made_that_would_call_in_vain(rl: Scenario, clock: ManualClock) -> None:
    """While the listener refuses the test nothing is registered, and it is retried later."""
    registrar = rl.registrar(rl.settings("*", secret=Secret("not the listener's secret")))
    task_statuses = await registrar.sync()

    assert rl.tasks() == []
    assert {status.state for status in task_statuses} == {"failed"}
    assert all("404" in (status.reason or "") for status in task_statuses)
    assert rl.gate.count("POST", TEST) == 1
    for _ in range(20):
        await clock.advance(await registrar.work_on_next())
    assert 2 <= rl.gate.count("POST", TEST) <= 4


async def test_where_nothing_can_be_tested_tasks_are_made_untested(rl: Scenario) -> None:
    """A workspace without the test's capability still gets its tasks."""
    rl.gate.refuse("POST", TEST, 404, "RouteNotFoundException")
    await rl.registrar(rl.settings("*")).sync()

    assert rl.flows_with_tasks() == rl.flow_ids()


async def test_a_deleted_task_is_created_again(rl: Scenario, clock: ManualClock) -> None:
    """A task that vanished from the workspace is back at the next verification."""
    settings = rl.settings("*", verify_seconds=60.0)
    registrar = rl.registrar(settings)
    await registrar.sync()
    victim = rl.tasks()[3]
    rl.sandbox.world.delete(victim)
    await clock.advance(61)
    for _ in rl.flow_ids():
        await registrar.work_on_next()

    assert rl.flows_with_tasks() == rl.flow_ids()
    assert victim.id not in [task.id for task in rl.tasks()]


@pytest.mark.parametrize(
    "change",
    [
        {"secret": Secret("a new secret of the listener")},
        {"public_url": "http://127.0.0.1:1/elsewhere"},
        {"signing_secret": Secret("a new key for signatures")},
    ],
)
async def test_changed_settings_replace_the_tasks(rl: Scenario, change: dict[str, object]) -> None:
    """Secret, URL and key are part of the task, so a task with former ones is replaced."""
    rl.gate.refuse("POST", TEST, 404, "RouteNotFoundException")
    await rl.registrar(rl.settings("*")).sync()
    before = {task.id for task in rl.tasks()}
    settings = rl.settings("*", **change)
    await rl.registrar(settings).sync()

    assert rl.flows_with_tasks() == rl.flow_ids()
    assert not before & {task.id for task in rl.tasks()}
    assert settings.secret is not None
    for task in rl.tasks():
        assert task.url == f"{settings.public_url}/hooks/acme"
        assert task.headers[SECRET_HEADER] == secret_of(task.flow_id, settings.secret.reveal())


async def test_a_new_secret_reaches_one_flow_after_the_other(rl: Scenario) -> None:
    """Progress is shown, and each flow has its new task before it loses the former one."""
    rl.gate.refuse("POST", TEST, 404, "RouteNotFoundException")
    await rl.registrar(rl.settings("*")).sync()
    flows = len(rl.flow_ids())
    rl.gate.requests.clear()
    registrar = rl.registrar(rl.settings("*", secret=Secret("a new secret of the listener")))
    progress: list[dict[str, int]] = []
    for _ in range(flows):
        await registrar.work_on_next()
        progress.append(states(rl))
    assert progress[:-1] == [
        {"registered": done, "pending": flows - done} for done in range(1, flows)
    ]
    assert progress[-1] == {"registered": flows}
    verbs = [verb for verb, path in rl.gate.requests if path.startswith(TASKS) and verb != "GET"]
    assert verbs == ["POST", "DELETE"] * flows
    assert rl.flows_with_tasks() == rl.flow_ids()


async def test_a_task_whose_former_one_could_not_be_removed_is_not_made_twice(
    rl: Scenario,
) -> None:
    """Where the removal fails, the new task is adopted at the next attempt."""
    rl.gate.refuse("POST", TEST, 404, "RouteNotFoundException")
    await rl.registrar(rl.settings("*")).sync()
    rl.gate.refuse("DELETE", TASKS, 403, "ForbiddenException")
    registrar = rl.registrar(rl.settings("*", secret=Secret("a new secret of the listener")))
    for _ in range(3):
        await registrar.sync()
    assert len(rl.tasks()) == 2 * len(rl.flow_ids())
    rl.gate.refused.clear()
    await registrar.sync()
    assert len(rl.tasks()) == len(rl.flow_ids())
    for task in rl.tasks():
        new = secret_of(task.flow_id, "a new secret of the listener")
        assert task.headers[SECRET_HEADER] == new


async def test_a_task_that_is_no_longer_configured_is_removed(rl: Scenario) -> None:
    """A flow that the settings no longer name loses our task, and only ours."""
    await rl.registrar(rl.settings("*")).sync()
    kept, other = rl.flow_ids()[:2]
    rl.fill(other, count=1)
    await rl.registrar(rl.settings(str(kept))).sync()

    assert rl.flows_with_tasks() == [kept, other]
    assert states(rl) == {"registered": 1}


async def test_without_public_url_only_former_tasks_are_removed(rl: Scenario) -> None:
    """A daemon without a public URL requests nothing, except to remove its former tasks."""
    off = rl.settings("*", public_url=None)
    await rl.registrar(off).work_on_next()
    requests_at_first = list(rl.gate.requests)
    await rl.registrar(rl.settings("*")).sync()
    registrar = rl.registrar(off)
    for _ in rl.flow_ids():
        await registrar.work_on_next()
    rl.gate.requests.clear()
    await registrar.work_on_next()

    assert requests_at_first == []
    assert rl.tasks() == []
    assert rl.gate.requests == []
    assert await registered_at(rl.bus, "acme") == {}


async def test_a_flow_full_of_foreign_tasks_is_left_alone(rl: Scenario) -> None:
    """At the product's bound no task is created; the other flows are served."""
    full, nearly = rl.flow_ids()[:2]
    rl.fill(full, count=50)
    rl.fill(nearly, count=49)
    task_statuses = await rl.registrar(rl.settings("*")).sync()

    by_flow = {status.flow_id: status.state for status in task_statuses}
    assert by_flow.pop(str(full)) == "over_limit"
    assert set(by_flow.values()) == {"registered"}
    assert rl.flows_with_tasks().count(full) == 50
    assert rl.flows_with_tasks().count(nearly) == 50


async def test_a_lost_store_makes_no_second_task(scenario: Scenario) -> None:
    """Tasks of an earlier life are found at their flows and adopted as they are."""
    await scenario.registrar(scenario.settings("*")).sync()
    before = sorted(task.id for task in scenario.tasks())
    await scenario.lose_the_store()
    scenario.gate.requests.clear()
    task_statuses = await scenario.registrar(scenario.settings("*")).sync()

    assert sorted(task.id for task in scenario.tasks()) == before
    assert {status.state for status in task_statuses} == {"registered"}
    assert scenario.gate.count("POST", TASKS) == 0
    assert set(await registered_at(scenario.bus, "acme")) == {
        str(flow_id_) for flow_id_ in scenario.flow_ids()
    }


async def test_tasks_of_a_lost_life_with_other_settings_are_replaced(rl: Scenario) -> None:
    """A task with a former secret is removed from its flow; nothing is left over."""
    rl.gate.refuse("POST", TEST, 404, "RouteNotFoundException")
    await rl.registrar(rl.settings("*", secret=Secret("the secret of yesterday"))).sync()
    await rl.lose_the_store()
    await rl.registrar(rl.settings("*")).sync()

    assert rl.flows_with_tasks() == rl.flow_ids()
    for task in rl.tasks():
        assert task.headers[SECRET_HEADER] == secret_of(task.flow_id)


async def test_a_task_whose_creation_was_not_answered_is_not_made_twice(
    rl: Scenario, clock: ManualClock
) -> None:
    """A task whose creation was answered by an error is found again instead of created twice."""
    chosen = rl.flow_ids()[0]
    registrar = rl.registrar(rl.settings(str(chosen)))
    rl.gate.lost.add(("POST", TASKS))
    await clock.advance(await registrar.work_on_next())
    after_loss = rl.flows_with_tasks()
    rl.gate.lost.clear()
    for _ in range(10):
        await clock.advance(await registrar.work_on_next())

    assert after_loss == [chosen]
    assert rl.flows_with_tasks() == [chosen]
    assert states(rl) == {"registered": 1}


async def test_two_daemons_leave_each_others_tasks_alone(rl: Scenario) -> None:
    """Each instance knows its tasks by its name, so a flow may have one of each."""
    await rl.registrar(rl.settings("*"), instance="north").sync()
    await rl.lose_the_store()
    await rl.registrar(rl.settings("*"), instance="south").sync()

    assert rl.flows_with_tasks() == sorted(2 * rl.flow_ids())


async def test_a_deleted_flow_is_forgotten(rl: Scenario) -> None:
    """The task of a deleted flow leaves the store, also where the API denies the read."""
    registrar = rl.registrar(rl.settings("*"))
    await registrar.sync()
    gone, hidden = rl.tasks()[:2]
    for task in (gone, hidden):
        rl.live_state.forget_pipeline("acme", PipelineKind.FLOW, str(task.flow_id))
    rl.sandbox.world.delete(gone)
    rl.gate.refuse("DELETE", f"{TASKS}/{hidden.id}", 403, "AccessControlException")
    for _ in rl.flow_ids():
        await registrar.work_on_next()
    known = await registered_at(rl.bus, "acme")

    assert not {str(gone.flow_id), str(hidden.flow_id)} & set(known)
    assert len(registrar.task_statuses()) == len(rl.flow_ids()) - 2


async def test_a_start_before_the_flows_are_listed_removes_nothing(
    clock: ManualClock, tmp_path: Path
) -> None:
    """A run may name its flow before the list is read; the others' tasks stay until then."""
    async with open_scenario(clock, tmp_path) as scenario:
        await scenario.registrar(scenario.settings("*")).sync()
        before = scenario.flows_with_tasks()
        scenario.live_state.polls.clear()
        for flow_id in before[1:]:
            scenario.live_state.forget_pipeline("acme", PipelineKind.FLOW, str(flow_id))
        later = scenario.registrar(scenario.settings("*"))
        for _ in range(5):
            await later.work_on_next()
        with pytest.raises(TryLaterError):
            await later.sync()

        assert scenario.flows_with_tasks() == before
        assert len(before) > 1


async def test_removed_by_the_operator_stays_removed(rl: Scenario, clock: ManualClock) -> None:
    """Tasks removed by `webhooks delete` come back with `webhooks sync`, not by themselves."""
    registrar = rl.registrar(rl.settings("*"))
    await registrar.sync()
    chosen = rl.flow_ids()[0]
    await registrar.delete(str(chosen))
    await clock.advance(1_000)
    for _ in range(20):
        await registrar.work_on_next()
    after_delete = rl.flows_with_tasks()
    await registrar.sync(str(chosen))

    assert after_delete == rl.flow_ids()[1:]
    assert rl.flows_with_tasks() == rl.flow_ids()


async def test_a_flow_that_is_not_chosen_cannot_be_synchronised(rl: Scenario) -> None:
    """Naming a flow that the settings leave out is an error with the reason."""
    first, second = rl.flow_ids()[:2]
    registrar = rl.registrar(rl.settings(str(first)))

    with pytest.raises(ConfigurationError, match=str(second)):
        await registrar.sync(str(second))


@pytest.mark.parametrize("edition", [Edition.LE, Edition.PC])
async def test_nothing_is_tried_without_the_capability_of_tasks(
    clock: ManualClock, tmp_path: Path, edition: Edition
) -> None:
    """In the small editions nothing is requested, and a sync reports why."""
    async with open_scenario(clock, tmp_path, edition=edition, is_known=False) as scenario:
        scenario.publish_capabilities()
        registrar = scenario.registrar(scenario.settings("*"))
        for _ in range(3):
            await registrar.work_on_next()
        with pytest.raises(NotAvailableError):
            await registrar.sync()

        assert scenario.gate.requests == []
        assert scenario.tasks() == []


async def test_no_secret_is_shown(rl: Scenario, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither status nor log lines repeat a secret, also when the workspace does."""
    chosen = rl.flow_ids()[0]
    secret = secret_of(chosen)
    rl.gate.refuse("POST", TASKS, 400, f"ValidationFailed {secret}")
    task_statuses = await rl.registrar(rl.settings(str(chosen))).sync()
    output = capsys.readouterr()

    assert {status.state for status in task_statuses} == {"failed"}
    assert "ValidationFailed ***" in f"{task_statuses}"
    assert secret not in f"{task_statuses}{output.out}{output.err}"

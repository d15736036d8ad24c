"""The SDK's calls, run inside its own environment: ``calls.py URL TOKEN``.

Each prints one line: ok, or why it failed. What follows from a failed call is tried all the same.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import signal
import sys
from collections.abc import Callable
from typing import Any

CALL_SECONDS = 60


class Run:
    """The calls made so far, and what they gave."""

    def __init__(self) -> None:
        self.failed = 0
        self.made = 0

    def call(self, name: str, work: Callable[[], Any], check: Callable[[Any], bool]) -> Any:
        """Make one call and print its line; None where it failed."""
        self.made += 1
        said = io.StringIO()
        signal.alarm(CALL_SECONDS)  # the SDK waits for ever for a run that does not succeed
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                result = work()
                passed = check(result)
        except Exception as exc:  # noqa: BLE001 - the reason is what this program is for
            self.failed += 1
            print(f"{name:34} {type(exc).__name__}: {exc}"[:400])  # noqa: T201
            return None
        finally:
            signal.alarm(0)
        self.failed += not passed
        print(f"{name:34} {'ok' if passed else f'unexpected: {result!r}'[:400]}")  # noqa: T201
        return result


def out_of_time(number: int, frame: object) -> None:
    raise TimeoutError(f"no end within {CALL_SECONDS} s")


def main(url: str, token: str) -> int:
    signal.signal(signal.SIGALRM, out_of_time)
    run = Run()
    sdk = importlib.import_module("trifacta")
    pandas = importlib.import_module("pandas")
    settings = importlib.import_module("trifacta.util.tfconfig")
    run.call(
        "setup_configuration",
        lambda: settings.setup_configuration("sandbox", token, url),
        lambda _: bool(settings.check_config()),
    )
    letters = pandas.DataFrame({"letters": ["a", "b", "c"], "numbers": [1, 2, 3]})
    dogs = pandas.DataFrame({"dogs": ["Fido", "Spot"], "bones": ["T", "ankle"], "age": [3, 4]})
    flow = run.call(
        "wrangle", lambda: sdk.wrangle(letters, flow_name="Letters"), lambda flow: flow.flow_id > 0
    )
    new_flow(run, flow, letters, dogs)
    flow = run.call(
        "wrangle_existing",
        lambda: sdk.wrangle_existing(flow.flow_id),
        lambda found: found.recipe_names() == flow.recipe_names(),
    )
    run_results(run, flow, letters)
    requests_of(run, sdk)
    old_client(run, sdk.Client(url, token), flow)
    run.call("_tf_cleanup", lambda: flow._tf_cleanup(), lambda _: True)  # noqa: SLF001
    print(f"{run.made - run.failed} of {run.made} calls ok")  # noqa: T201
    return int(run.failed > 0)


def new_flow(run: Run, flow: Any, letters: Any, dogs: Any) -> None:
    run.call("recipe_names", lambda: flow.recipe_names(), lambda names: len(names) == 1)
    run.call(
        "add_datasets",
        lambda: flow.add_datasets((dogs, "dogs"), ("more", letters)),
        lambda _: len(flow.recipe_names()) == 3,
    )
    run.call("open", lambda: flow.open(True), lambda page: f"/flows/{flow.flow_id}" in page)
    run.call(
        "open of a recipe",
        lambda: flow.open(True, recipe_name=flow.recipe_names()[0]),
        lambda page: f"/data/{flow.flow_id}/" in page,
    )


def run_results(run: Run, flow: Any, letters: Any) -> None:
    run.call("run_job", lambda: flow.run_job(), lambda group: group["id"] > 0)
    run.call(
        "run_job of another recipe",
        lambda: flow.run_job(recipe_name=flow.recipe_names()[1]),
        lambda group: group["id"] > 0,
    )
    run.call(
        "profile",
        lambda: flow.profile(),
        lambda profile: list(profile["columnTypes"]) == ["letters", "numbers"],
    )
    run.call(
        "profile of another recipe",
        lambda: flow.profile(recipe_name=flow.recipe_names()[1]),
        lambda profile: list(profile["columnTypes"]) == ["dogs", "bones", "age"],
    )
    bars = {"VALID", "INVALID", "EMPTY"}
    run.call("dq_bars", lambda: flow.dq_bars(), lambda table: set(table.columns) == bars)
    run.call("dq_bars(False)", lambda: flow.dq_bars(False), lambda table: len(table) == 2)
    run.call(
        "col_types",
        lambda: flow.col_types(),
        lambda types: list(types["type"]) == ["String", "Integer"],
    )
    run.call(
        "bars_df_list",
        lambda: flow.bars_df_list(),
        lambda columns: [column["count"].sum() for column in columns] == [3, 3],
    )
    run.call(
        "summary",
        lambda: flow.summary(),
        lambda table: table["ub"].count() == 1 and table["roundMin"].count() == 1,
    )
    run.call("pdf_profile", lambda: flow.pdf_profile(), lambda pdf: pdf.content[:4] == b"%PDF")
    run.call(
        "output", lambda: flow.output(), lambda table: table.to_csv() == letters.to_csv()
    )
    run.call("open_profile", lambda: flow.open_profile(), lambda page: "/jobs/" in page)
    run.call("get_pandas", lambda: flow.get_pandas(), lambda code: compiled(code, letters))


def compiled(code: str, letters: Any) -> bool:
    """True where the generated code runs, and leaves a table as the recipe without steps does."""
    names: dict[str, Any] = {}
    exec(compile(code, "recipe", "exec"), names)  # noqa: S102 - it is the sandbox's own
    return bool(names["run_transforms"](letters).equals(letters))


def requests_of(run: Run, sdk: Any) -> None:
    """The module of requests that the rest is made of."""
    requests = importlib.import_module("trifacta.util.tfrequests")
    run.call(
        "tfrequests.get",
        lambda: requests.get("/v4/flows", {"limit": 1}).json(),
        lambda page: page["data"][0]["name"] == "letters",
    )
    made = run.call(
        "tfrequests.post",
        lambda: requests.post("/v4/flows/", json={"name": "made by requests"}).json(),
        lambda flow: flow["id"] > 0,
    )
    run.call(
        "tfrequests.patch",
        lambda: requests.patch(f"/v4/flows/{made['id']}/", json={"name": "renamed"}).json(),
        lambda answer: answer["id"] == made["id"],
    )
    run.call(
        "tfrequests.put",
        lambda: requests.put("/v4/importedDatasets/" + first_dataset(requests), json={"name": "n"}),
        lambda answer: answer.json()["name"] == "n",
    )
    run.call(
        "tfrequests.delete",
        lambda: requests.delete(f"/v4/Flows/{made['id']}/"),
        lambda answer: answer.status_code == 204,
    )


def first_dataset(requests: Any) -> str:
    return str(requests.get("/v4/datasetLibrary", {"datasetsFilter": "all"}).json()["data"][0]["id"])


def old_client(run: Run, client: Any, flow: Any) -> None:
    """The client that the package began as."""
    run.call(
        "Client.run_job",
        lambda: client.run_job(flow.recipe_dict[flow.recipe_names()[0]].id),
        bool,
    )
    run.call(
        "Client.get_job_status",
        lambda: client.get_job_status(client.job_group_id),
        lambda status: status == "Complete",
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

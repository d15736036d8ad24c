"""Samples of the operations on job groups and flow runs."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.sandbox.world.records.runs import FlowRun, Job, JobGroup, NativeStatus
from tests.sandbox.samples.sample import Living, Sample, of


def furnish(living: Living) -> None:
    """Make a job group that is complete and profiled, one that is not over, and a flow run."""
    living.workspace.job_group(status=NativeStatus.COMPLETE, profiling=True)
    living.workspace.job_group()
    living.workspace.engine.start_flow_run(living.things.orders, by=living.things.owner.id)


def newest_job_group(living: Living) -> Sequence[object]:
    return (living.newest(JobGroup).id,)


SAMPLES = {
    "runJobGroup": Sample(body=lambda item: {"wrangledDataset": {"id": item.things.clean.id}}),
    "listJobGroups": Sample(),
    "cancelJobGroup": Sample(path=newest_job_group, body=lambda _: {}),
    "getJobGroup": Sample(path=of(JobGroup)),
    "getProfilingInformationForJobGroup": Sample(path=of(JobGroup)),
    "getProfilingInformationForJobGroupConsistent": Sample(path=of(JobGroup)),
    "getJobGroupPdfResults": Sample(path=of(JobGroup)),
    "getJobGroupStatus": Sample(path=of(JobGroup)),
    "getJobGroupInputs": Sample(path=of(JobGroup)),
    "getJobGroupOutputs": Sample(path=of(JobGroup)),
    "listJobLibrary": Sample(),
    "countJobLibrary": Sample(),
    "getJobsForJobGroup": Sample(path=of(JobGroup)),
    "getPublicationsForJobGroup": Sample(path=of(JobGroup)),
    "getJobStatus": Sample(path=of(Job)),
    "getFlowRun": Sample(path=of(FlowRun)),
    "getFlowRunStatus": Sample(path=of(FlowRun)),
    "getFlowRunJobGroups": Sample(path=of(FlowRun)),
}

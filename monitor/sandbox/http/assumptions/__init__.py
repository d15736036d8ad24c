"""What nothing published tells, and what this workspace does instead.

Wherever the public documents are silent, the choice is made here and nowhere else:

- **Who is asked first.** The token is judged before the route: without a valid one, an unknown
  path answers 401 too. The body of a 401 is the usual envelope with ``UnauthorizedException``.
- **Order of lists.** Runs come newest first, everything else by ascending id, until ``sort``
  says otherwise. Equal values keep that order.
- **Limits of pages.** ``limit`` is at least 1. Only schedules have a largest page (1000).
  An ``offset`` past the end answers an empty page.
- **Scope.** Job library and plan runs default to the caller's own; ``/v4/jobGroups`` shows what
  the job library shows for ``runBy=all``. Reading one object by its id needs no ownership, but a
  schedule can be changed by its owner only (403 ``AccessControlException``).
- **Unknown query parameters** are ignored, as are those that the operation does not list.
  An empty value counts as absent.
- **Unknown names in** ``fields`` **are refused** (400). Embedded associations are kept beside
  the chosen fields. An embedded list is whole unless its own ``limit`` says otherwise.
- **Rows of the job library** carry the flow run and the recipe's flow. The fault
  ``library_rows=bare`` leaves both out, as rows recorded in 2026 did.
- **People.** Rows of the job library carry their creator's record, as rows of 2026 did, though
  no 14 KB of it; elsewhere ``creator`` is an id unless embedded.
- **What jobs embed** is what published clients read: the error, the write setting of a writing
  job (in the job itself), and where results went, with a path that is a list in a text. All job
  groups work in the same region.
- **Only Dataflow** gives jobs a ``cpJobId``; a run asks for it by ``overrides.execution``.
- **Filtering by a nested field** is refused (400), where one workspace answered 500 in 2026.
- **The schedule of a run that was started by hand** is 404 ``DataNotFoundException``.
- **Starting a run** answers 201, for flows and plans as for job groups. What has nothing to run,
  or a plan whose flow is deleted, is refused (400) instead of being started.
- **Deleted objects** answer 404 ``DataNotFoundException``, never 410; ``includeDeleted=true``
  shows them where the operation lists that parameter.
- **A webhook task's deletion** answers 200 with the task, as the specification says.
- **Triggers** other than hourly, daily and cron are refused (400), as the published
  ``oneTime`` was in 2026.
- **Scope of** ``runBy=all``: one's own runs, and those of flows and plans that one owns or that
  are shared; to an administrator everything is.
- **Errors of jobs and of webhook tests** are objects with a ``message``.
- **The library's** ``type`` and the plan runs' ``includeFlowCreatorInfo`` have no effect.
- **Schedules**: deleting one is seen at once; one flow may have several.
- **The specification** lists the whole edition, also what has no handler here.
- **Quotas** count every request that reached the operation, refused ones excepted, in windows of a
  minute that begin with the first request.
- **A body of another** ``Content-Type`` **than JSON** is 415 ``UnsupportedMediaTypeException``; one
  without that header is read. ``Accept`` is not looked at.
- **A body too large** (1 MiB) is 413 in the usual envelope.
- **x-execution-id** is remembered for the whole workspace, per operation, for the last 10,000.
"""

from __future__ import annotations

DEFAULT_LIMIT = 25
DEFAULT_SCHEDULE_LIMIT = 10
LARGEST_SCHEDULE_LIMIT = 1000
QUOTA_WINDOW_SECONDS = 60.0
BODY_LIMIT_BYTES = 1024 * 1024
REMEMBERED_EXECUTION_IDS = 10_000
WEBHOOK_TASKS_PER_FLOW = 50

"""What nothing published says, and what this workspace does instead.

Wherever the public documents are silent, the choice stands in this folder, one file for each
family of operations, and nowhere else; `table` gathers them. The numbers among them stand here.
"""

from __future__ import annotations

DEFAULT_LIMIT = 25
DEFAULT_SCHEDULE_LIMIT = 10
LARGEST_SCHEDULE_LIMIT = 1000
QUOTA_WINDOW_SECONDS = 60.0
BODY_LIMIT_BYTES = 1024 * 1024
UPLOAD_LIMIT_BYTES = 16 * 1024 * 1024
REMEMBERED_EXECUTION_IDS = 10_000

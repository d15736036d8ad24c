"""The payloads of what outputs write."""

from __future__ import annotations

from monitor.sandbox.http.errors import Json
from monitor.sandbox.http.kinds.shapes import OWN, STAMPS, stamps
from monitor.sandbox.http.showing.rendering import Resource, View, reference
from monitor.sandbox.objects import Publication


def publication(view: View, one: Publication) -> dict[str, Json]:
    del view
    return {
        **stamps(one),
        "path": list(one.path),
        "tableName": one.table_name,
        "targetType": one.target_type,
        "action": one.action,
        "outputobject": reference(one.output_object_id),
        "connection": reference(one.connection_id),
        "parameters": {},
    }


OUTPUT_RESOURCES: dict[str, Resource] = {
    "publications": Resource(
        plural="publications", render=publication, columns=STAMPS, associations=OWN
    ),
}

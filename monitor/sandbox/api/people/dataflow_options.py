"""Options that a person's jobs give to Dataflow."""

from __future__ import annotations

import re

from monitor.sandbox.api.calls import NO_CONTENT, Call, Handlers, Reply
from monitor.sandbox.api.errors import bad_field, forbidden, not_found
from monitor.sandbox.api.request.bodies import Body
from monitor.sandbox.world.records.objects import Person
from monitor.sandbox.world.records.parts import DataflowOptions

TYPE = re.compile(r"[\w.-]{1,64}")


def set_own_options(call: Call) -> Reply:
    """Keep options of one type for the caller, in place of earlier ones."""
    return _keep(call, call.person, call.path_values[0])


def set_options_of_another(call: Call) -> Reply:
    """Keep options of one type for the person with an e-mail address."""
    email, options_type = call.path_values
    people = call.world.people.live()
    found = next((person for person in people if person.email.casefold() == email.casefold()), None)
    if not call.person.is_admin and found is not call.person:
        raise forbidden("Only an administrator may set options of another person")
    if found is None:
        raise not_found("person", email)
    return _keep(call, found, options_type)


def _keep(call: Call, person: Person, options_type: str) -> Reply:
    if not TYPE.fullmatch(options_type):
        raise bad_field("type", "must be letters, digits, dots, dashes and underscores")
    body = Body(call.body)
    options = {name: body.raw(name) for name in body.names() if body.has(name)}
    for dataflow_options in call.world.shelf(DataflowOptions).live():
        if dataflow_options.person_id == person.id and dataflow_options.type == options_type:
            call.world.update(dataflow_options, by=call.person.id, options=options)
            return NO_CONTENT
    call.world.create(
        DataflowOptions,
        by=call.person.id,
        person_id=person.id,
        type=options_type,
        options=options,
    )
    return NO_CONTENT


HANDLERS: Handlers = {
    "setDataflowOption": set_own_options,
    "setCurrentPersonDataflowOption": set_own_options,
    "setPersonDataflowOption": set_options_of_another,
}

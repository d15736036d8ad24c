"""What ``.github/SECURITY.md`` says, and the tests that hold it.

A key is how the first cell of a row begins, or words of a sentence. Tests have the names of pytest.
"""

from __future__ import annotations

WHO_MAY_REACH = {
    "`[server]`": (
        "tests/web/test_route_roles.py::test_a_stranger_reaches_open_routes_only",
        "tests/web/test_web_access.py::test_strangers_learn_whether_all_is_well_and_no_more",
        "tests/config/test_config_validation.py::test_an_open_server_needs_auth",
    ),
    "`probe_listen` of `[server]`": (
        "tests/web/test_web_probes.py::test_probes_are_answered_while_clients_hold_every_place",
    ),
    "`[callbacks]`": (
        "tests/callbacks/test_listener.py::test_a_request_without_the_secret_is_not_found",
        "tests/callbacks/test_listener_socket.py::test_a_chunked_body_is_bounded_too",
        (
            "tests/listening/test_connections.py::"
            "test_a_stranger_holds_64_connections_and_a_known_source_a_third"
        ),
    ),
    "workspace, token endpoint": (
        "tests/workspace/test_workspace_row_bounds.py",
        "tests/workspace/test_workspace_malformed_answers.py",
        "tests/outputs/test_mqtt_hostile.py::test_a_packet_of_200_megabytes_ends_the_connection",
        "tests/browser/test_browser_attacks.py",
    ),
    "store (file or database)": (
        "tests/bus/test_sqlite_file.py::test_only_the_owner_can_read_the_store",
    ),
}
WHAT_A_SECRET_OPENS = {
    "callback secret of a workspace": (
        "tests/decisions/test_callbacks.py::test_a_callback_that_lies",
        "tests/decisions/test_callbacks.py::test_a_forged_run_id",
        "tests/decisions/test_callbacks.py::test_a_contradiction",
        "tests/alerting/test_late_ends.py::test_a_failure_that_the_workspace_corrects_is_none",
        (
            "tests/alerting/test_late_ends.py::"
            "test_a_success_that_only_a_callback_reported_resolves_nothing"
        ),
        (
            "tests/app/test_lying_callbacks.py::"
            "test_a_lie_is_published_as_unconfirmed_and_then_corrected"
        ),
        "tests/callbacks/test_task_secrets.py::test_what_is_derived_is_another_for_each_purpose",
    ),
    "a webhook task that the daemon made": (
        "tests/callbacks/test_task_secrets.py::test_the_secret_of_a_task_opens_its_own_flow",
        "tests/callbacks/test_task_secrets.py::test_a_leaked_task_says_nothing_about_another_flow",
        (
            "tests/callbacks/test_task_secrets.py::"
            "test_the_former_secret_of_a_task_ends_with_the_former_secret"
        ),
        "tests/callbacks/test_task_secrets.py::test_while_the_flow_of_a_run_is_unknown_a_task_waits",
    ),
    "token of an entry": (
        "tests/web/test_route_roles.py::test_a_role_reaches_its_routes_and_no_others",
        "tests/web/test_restricted_readers.py",
        "tests/web/test_web_access.py::test_the_token_of_the_server_is_an_admin",
    ),
    "cookie of a session": (
        "tests/web/test_web_login.py::test_a_session_ends_by_the_clock",
        "tests/web/test_web_login.py::test_logging_out_ends_the_session_everywhere",
        "tests/web/test_web_login.py::test_a_token_that_is_gone_ends_its_sessions",
        "tests/web/test_openid_login.py::test_a_provider_that_is_trusted_no_more_ends_its_sessions",
        "tests/web/test_web_hosts.py::test_no_page_of_another_origin_writes",
        "tests/web/test_web_forms.py::test_without_its_token_a_form_changes_nothing",
    ),
    "MQTT user of the daemon": (
        (
            "tests/outputs/test_mqtt_hostile.py::"
            "test_a_huge_retained_message_on_an_own_topic_costs_nothing"
        ),
        (
            "tests/alerting/test_monitor_degraded.py::"
            "test_a_client_that_overwrites_retained_topics_fires_until_it_ends"
        ),
    ),
    "database password, or the file of the store": (
        "tests/web/test_stored_log_ins.py::test_who_reads_the_store_can_log_in_nowhere",
        "tests/bus/test_dump.py::test_no_session_is_in_a_dump",
    ),
    "headers of a trusted proxy": (
        "tests/web/test_web_access.py::test_a_header_from_an_untrusted_address_lets_no_user_in",
        "tests/deploy/test_proxies.py::test_a_client_cannot_name_a_user",
    ),
}
WHAT_AN_INTRUDER_MEETS = {
    "wrong token or password": (
        "tests/web/test_web_credentials.py::test_who_guesses_waits_longer_each_time",
        (
            "tests/web/test_web_credentials.py::"
            "test_guesses_are_logged_in_sum_without_what_was_guessed"
        ),
        (
            "tests/web/test_web_login.py::"
            "test_guesses_from_many_addresses_lock_out_no_address_that_is_known"
        ),
        "tests/deploy/test_prometheus_rules.py",
    ),
    "writes by page or API": (
        "tests/web/test_web_audit.py::test_every_write_has_a_word_of_the_audit",
        "tests/web/test_web_audit.py::test_nothing_is_changed_without_its_line",
        "tests/web/test_web_audit.py::test_what_a_role_forbids_leaves_a_line",
    ),
    "reads": (
        "tests/web/test_web_read_limits.py::test_reads_of_a_source_are_limited_by_their_cost",
    ),
    "callbacks": (
        "tests/callbacks/test_listener.py::test_an_accepted_callback_is_in_the_inbox",
        "tests/callbacks/test_listener.py::test_a_closed_store_is_overload_not_success",
        (
            "tests/callbacks/test_listener_guesses.py::"
            "test_a_wrong_secret_is_answered_late_and_a_right_one_at_once"
        ),
    ),
    "callbacks by the task of one flow about another": (
        "tests/callbacks/test_task_secrets.py::test_a_leaked_task_says_nothing_about_another_flow",
    ),
    "answers of a workspace": (
        "tests/polling/test_polling_row_bounds.py",
        "tests/tracking/test_active_limit.py",
    ),
    "callback signature": ("tests/callbacks/test_listener.py::TestSignatures",),
    "`SIGHUP`, commands on the store": ("tests/app/test_audit_daemon.py",),
}
PERSONAL_DATA = {
    "owners of flows, plans and runs": ("tests/bus/test_contract_retention.py",),
    "audit": (
        "tests/web/test_web_audit.py::test_a_full_audit_gives_up_its_oldest_lines",
        "tests/app/test_retention.py::test_the_audit_has_a_retention_of_its_own",
    ),
    "sessions": (
        "tests/web/test_web_login.py::test_a_session_ends_by_the_clock",
        "tests/bus/test_dump.py::test_no_session_is_in_a_dump",
    ),
}
SENTENCES = {
    "`doctor` warns of what is open or in the clear": (
        "tests/cli/test_doctor_exposure.py::test_it_says_who_may_use_the_admin_api",
        "tests/cli/test_doctor_exposure.py::test_traffic_in_the_clear_is_a_warning",
    ),
    "Secrets are masked in logs, `check`, `doctor` and the page": (
        "tests/test_logs.py::test_a_registered_secret_never_reaches_the_output",
        "tests/config/test_config_secrets.py",
        "tests/web/test_web_audit.py::test_no_secret_is_in_a_line",
    ),
    "callbacks take a `former_secret` beside the new one until its end": (
        "tests/callbacks/test_former_secret.py::test_both_are_accepted_until_the_former_one_ends",
    ),
    "What a new value in a file or of a command takes over by itself within half a minute": (
        "tests/app/test_changed_secrets.py::test_a_running_daemon_takes_a_new_one_by_itself",
    ),
    (
        "The daemon starts and cancels runs where a user of role `operate` asks for it and "
        "`actions = true` is set, and changes nothing else"
    ): (
        "tests/app/test_run_actions.py::test_actions_are_off_unless_they_are_configured",
        "tests/deploy/test_security_document.py::test_one_module_names_what_starts_and_cancels_runs",
        "tests/deploy/test_security_document.py::test_the_daemon_writes_webhook_tasks_by_itself",
        "tests/web/test_route_roles.py::test_a_role_reaches_its_routes_and_no_others",
    ),
    "a test holds it below 2": (
        "tests/deploy/test_deploy_files.py::test_the_unit_gives_little_away",
    ),
    "Install from the locks": (
        "tests/deploy/test_locks.py::test_packages_are_installed_by_their_hashes",
    ),
    "[compose](../deploy/compose.yaml) has all of it": (
        "tests/deploy/test_compose.py::test_no_service_may_more_than_it_must",
    ),
    "Both files are attacked by tests": (
        "tests/deploy/test_proxies.py",
        "tests/deploy/test_proxy_smuggling.py::test_no_request_hides_another",
        "tests/deploy/test_proxy_http2.py::test_no_frame_hides_a_request",
        "tests/deploy/test_proxy_slow_clients.py::test_who_sends_slowly_waits_at_the_proxy",
    ),
    "`doctor` names each connection without verification": (
        "tests/cli/test_cli_tls.py::test_doctor_warns_of_a_channel_that_verifies_nothing",
    ),
}
# About what others do with a secret of theirs, or about what is kept elsewhere.
NOT_OURS = {
    "workspace token, OAuth pair",
    "webhook secret",
    "URL of a channel",
    "key of TLS",
    "names of users",
    "addresses of channels",
    "log",
}
TABLES = {
    "Who may reach what": WHO_MAY_REACH,
    "What each secret opens": WHAT_A_SECRET_OPENS,
    "What an intruder meets, and what is logged": WHAT_AN_INTRUDER_MEETS,
    "Personal data": PERSONAL_DATA,
}

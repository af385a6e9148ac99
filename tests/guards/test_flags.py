"""Guard: every flag of every command has a test that it changes something (DESIGN section 9).

``TESTS`` says which test that is; a flag without an entry, an entry without a flag, and a test that does not exist are
all failures. Whether the test is good is for reviewers.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from brokerproof.conformance.cli import COMMANDS, main
from brokerproof.conformance.experiment.exits import OK
from tests.guards.tree import ROOT

CLI = "tests/fast/conformance/commands/test_cli.py"
RELEASES = "tests/fast/reports/commands/test_releases.py"
AUTOMATIC = "tests/quality/test_automatic.py"
JOBS = "tests/quality/test_jobs.py"
COVERAGE = "tests/quality/test_coverage.py"
QUICK = "tests/fast/conformance/running/test_quick.py"
PLAN = "tests/fast/conformance/running/test_live_plan.py"
CLOCKS = "tests/fast/conformance/operating/test_clocks.py"
SERVER = "tests/live/test_server.py"
TRANSPORT = "tests/live/test_transport.py"
STORIES = "tests/quality/test_stories.py"
LIVE = "tests/live/test_live_command.py"
FAST = "tests/live/test_live_rates.py"
CAMPAIGN = "tests/live/test_campaign.py"
ASKED = "tests/fast/reports/commands/test_sql.py"
COMPARED = "tests/fast/reports/commands/test_compare.py"
CLUSTER = "tests/live/test_campaign_cluster.py"
REACHED = "tests/fast/reports/campaign/test_cluster.py"
TRIALS = "tests/fast/reports/campaign/test_mutants.py"
#: What all commands have that use Spark.
SPARK = {
    "--master": f"{CAMPAIGN}::test_seeds_programs_and_table_matter",
    "--conf": f"{CLUSTER}::test_executors_that_cannot_come_end_in_an_error",
    "--driver-host": f"{REACHED}::test_executors_are_told_where_the_driver_is",
    "--archives": f"{REACHED}::test_an_archive_is_where_executors_find_their_packages",
    "--store": f"{CAMPAIGN}::test_seeds_programs_and_table_matter",
    "--resume": f"{CAMPAIGN}::test_a_killed_campaign_goes_on_and_gives_the_same_digest",
    "--json": f"{CAMPAIGN}::test_the_digest_is_that_of_one_process",
}
NIGHTLY = "tests/quality/test_nightly.py"

TESTS: dict[str, dict[str, str]] = {
    "run": {
        "--broker": f"{CLI}::test_run_refuses_nonsense",
        "--home": f"{LIVE}::test_a_home_folder_without_a_broker_is_refused",
        "--client": f"{PLAN}::test_clients_are_cast_before_the_plan_is_made",
        "--speed": f"{PLAN}::test_the_speed_chooses_what_is_played_and_how_long_it_may_take",
        "--tier": f"{CLI}::test_tier_chooses_the_worlds",
        "--seed": f"{CLI}::test_seed_and_programs_choose_what_runs",
        "--programs": f"{CLI}::test_seed_and_programs_choose_what_runs",
        "--guided": f"{JOBS}::test_jobs_do_not_change_the_digest",
        "--budget": f"{CLI}::test_budget_cuts_seeds_short",
        "--chaos": f"{JOBS}::test_jobs_do_not_change_the_digest",
        "--requirement": f"{CLI}::test_requirement_restricts_what_is_judged",
        "--out": f"{CLI}::test_run_writes_its_report_where_out_says",
        "--jobs": f"{JOBS}::test_jobs_do_not_change_the_digest",
        "--mutant": f"{CLI}::test_a_planted_defect_turns_the_run_red",
        "--inconclusive-max": f"{CLI}::test_inconclusive_max_decides_between_0_and_3",
        "--json": f"{CLI}::test_json_output_is_json",
        "--verbose": f"{CLI}::test_a_run_says_as_much_as_it_is_asked_to",
        "--quiet": f"{CLI}::test_a_run_says_as_much_as_it_is_asked_to",
        "--full": f"{QUICK}::test_a_url_is_tested_quickly_unless_all_is_asked_for",
        "--name": f"{QUICK}::test_a_name_is_the_column",
        "--store": "tests/fast/reports/commands/test_suite_store.py::test_a_run_goes_to_the_store",
    },
    "list": {"--requirement": f"{CLI}::test_list_selects", "--json": f"{CLI}::test_json_output_is_json"},
    "replay": {
        "--seed": f"{CLI}::test_replay_by_seed_file_and_name",
        "--tier": f"{LIVE}::test_replay_live",
        "--broker": f"{LIVE}::test_replay_live",
        "--home": f"{LIVE}::test_a_home_folder_without_a_broker_is_refused",
        "--client": f"{LIVE}::test_another_client_library_plays_the_hosts",
        "--speed": f"{FAST}::test_a_program_lives_as_fast_as_it_is_told",
        "--mutant": f"{CLI}::test_replay_with_a_mutant_fails_and_shrinks",
        "--requirement": f"{CLI}::test_requirement_restricts_what_is_judged",
        "--machine": "tests/quality/test_machines.py::test_the_machine_of_a_replay_matters",
        "--shrink": f"{CLI}::test_replay_with_a_mutant_fails_and_shrinks",
        "--out": f"{CLI}::test_replay_by_seed_file_and_name",
        "--json": f"{CLI}::test_json_output_is_json",
    },
    "export": dict.fromkeys(
        ("--as", "--broker", "--requirement", "--out"), "tests/fast/conformance/export/test_export.py::test_the_command"
    ),
    "agent": {
        "--broker": "tests/live/test_agent_check.py::test_what_is_no_agent_is_said",
        "--via": "tests/live/test_agent_check.py::test_an_honest_agent_passes",
    },
    "story": {
        "--list": f"{STORIES}::test_the_command",
        "--broker": f"{STORIES}::test_bad_usage_names_the_remedy",
        "--home": f"{STORIES}::test_bad_usage_names_the_remedy",
        "--tier": f"{STORIES}::test_bad_usage_names_the_remedy",
        "--speed": f"{STORIES}::test_speed_shortens_what_does_not_depend_on_clocks",
        "--mutant": f"{STORIES}::test_the_command",
        "--generation": f"{STORIES}::test_another_generation_breaks_it",
        "--break-even": f"{STORIES}::test_break_even_is_printed_and_drawn",
        "--out": f"{STORIES}::test_the_command",
    },
    "mqsc": {"--admin": "tests/fast/conformance/commands/test_mqsc.py::test_a_running_broker_is_told"},
    "profile": {"--out": "tests/live/test_live_profile.py::test_a_first_profile_runs"},
    "judge": {
        "--requirement": f"{CLI}::test_requirement_restricts_what_is_judged",
        "--json": f"{CLI}::test_json_output_is_json",
    },
    "mutants": {
        "--programs": f"{CLI}::test_mutants_command",
        "--seed": f"{CLI}::test_mutants_command",
        "--jobs": f"{CLI}::test_mutants_command",
        "--canary": f"{CLI}::test_the_canary_sings",
        "--automatic": f"{AUTOMATIC}::test_each_flag_changes_something",
        "--sample": f"{AUTOMATIC}::test_each_flag_changes_something",
        "--file": f"{AUTOMATIC}::test_each_flag_changes_something",
        "--random-only": f"{AUTOMATIC}::test_each_flag_changes_something",
        "--out": f"{AUTOMATIC}::test_each_flag_changes_something",
        "--json": f"{CLI}::test_json_output_is_json",
    },
    "coverage": {
        "--programs": f"{COVERAGE}::test_the_rarest_come_first_and_flags_matter",
        "--seed": f"{COVERAGE}::test_the_rarest_come_first_and_flags_matter",
        "--guided": f"{COVERAGE}::test_the_rarest_come_first_and_flags_matter",
        "--requirement": f"{COVERAGE}::test_counts_are_those_of_the_runs",
        "--rarest": f"{COVERAGE}::test_the_rarest_come_first_and_flags_matter",
        "--jobs": f"{JOBS}::test_jobs_do_not_change_what_is_covered",
        "--json": f"{COVERAGE}::test_counts_are_those_of_the_runs",
    },
    "parity": {
        "--programs": f"{LIVE}::test_parity_command",
        "--seed": f"{LIVE}::test_parity_command",
        "--json": f"{LIVE}::test_parity_command",
    },
    "campaign": {
        **SPARK,
        "--programs": f"{CAMPAIGN}::test_seeds_programs_and_table_matter",
        "--seed": f"{CAMPAIGN}::test_seeds_programs_and_table_matter",
        "--guided": f"{CAMPAIGN}::test_guided_programs_are_those_of_one_process",
        "--facts": f"{CAMPAIGN}::test_the_tables_hold_every_event",
        "--out": f"{CAMPAIGN}::test_seeds_programs_and_table_matter",
        "--mutant": f"{CAMPAIGN}::test_the_planted_defect_is_found_and_named",
    },
    "campaign mutants": {
        **SPARK,
        **dict.fromkeys(
            ("--programs", "--trials", "--seed"),
            f"{TRIALS}::test_a_trial_ends_with_the_requirement_that_the_defect_names",
        ),
        "--resume": f"{TRIALS}::test_who_resumes_has_the_same_plan",
        "--out": f"{CAMPAIGN}::test_trials_of_planted_defects_are_one_job",
    },
    "compare": {
        "--broker": f"{COMPARED}::test_nothing_is_told_of_what_did_not_change",
        "--store": f"{COMPARED}::test_what_changed_is_told_by_kind",
        "--json": f"{COMPARED}::test_what_changed_is_told_by_kind",
    },
    "trends": dict.fromkeys(("--broker", "--store", "--json"), f"{COMPARED}::test_trends_have_a_line_per_campaign"),
    "ingest": {"--store": f"{ASKED}::test_reports_and_histories_become_campaigns"},
    "sql": {"--store": f"{ASKED}::test_every_question_is_answered"},
    "plots": {
        "--store": "tests/quality/test_plots.py::test_a_page_shows_what_is_there_and_names_what_is_not",
        "--out": "tests/quality/test_plots.py::test_a_page_shows_what_is_there_and_names_what_is_not",
    },
    "nightly": {
        "--broker": f"{NIGHTLY}::test_a_broker_that_cannot_be_tested_does_not_stop_the_others",
        "--budget": f"{NIGHTLY}::test_where_a_stage_ended_the_next_night_begins",
        "--chaos": f"{NIGHTLY}::test_random_chaos_is_as_wild_as_asked",
        "--state": f"{NIGHTLY}::test_failures_are_new_then_open_then_gone",
        "--out": f"{NIGHTLY}::test_what_is_written",
        "--fail-on": f"{NIGHTLY}::test_failures_are_new_then_open_then_gone",
        "--jobs": f"{NIGHTLY}::test_a_defect_is_planted_and_jobs_reach_virtual_time",
        "--mutant": f"{NIGHTLY}::test_a_defect_is_planted_and_jobs_reach_virtual_time",
    },
    "serve": {
        "--admin-port": f"{SERVER}::test_the_admin_port",
        "--certificate": f"{TRANSPORT}::test_tls_serves_both_protocols_beside_the_plain_port",
        "--config": f"{SERVER}::test_the_configuration_file_and_the_log_level_have_an_effect",
        "--connector": f"{SERVER}::test_a_connector_uri_says_where_and_how_to_listen",
        "--rate": f"{FAST}::test_the_server_lives_as_fast_as_it_is_told",
        "--data": "tests/live/test_storage.py::test_what_was_promised_survives_kills_at_any_instant",
        "--host": "tests/fast/reference_broker/settings/test_settings.py::test_bad_settings_exit_with_2",
        "--key": f"{TRANSPORT}::test_tls_serves_both_protocols_beside_the_plain_port",
        "--log-format": f"{SERVER}::test_the_log_can_be_json",
        "--log-level": f"{SERVER}::test_the_configuration_file_and_the_log_level_have_an_effect",
        "--management-port": "tests/live/test_management.py::test_one_probe_reads_both_brokers_alike",
        "--mutant": f"{LIVE}::test_serve_plants_a_defect",
        "--port": f"{SERVER}::test_a_port_in_use_exits_with_4",
        "--tls-port": f"{TRANSPORT}::test_tls_serves_both_protocols_beside_the_plain_port",
    },
    "clocks": {
        "--broker": CLOCKS + "::test_nobody_there_and_ways_that_do_not_fit",
        "--by": CLOCKS + "::test_nobody_there_and_ways_that_do_not_fit",
        "--json": CLOCKS + "::test_json_begins_with_the_measurement",
        "--tolerance-ms": CLOCKS + "::test_the_exit_code_says_whether_messages_are_safe",
        "--ttl-ms": CLOCKS + "::test_the_exit_code_says_whether_messages_are_safe",
    },
    "diagnose": {
        "--broker": "tests/fast/conformance/operating/test_diagnose.py::test_where_nobody_answers_is_said",
        "--json": "tests/fast/conformance/operating/test_diagnose.py::test_the_command_prints_text_or_json",
        "--watch": "tests/fast/reports/render/test_watch.py::test_the_command_watches_until_it_is_interrupted",
        "--html": "tests/fast/reports/render/test_watch.py::test_the_command_watches_until_it_is_interrupted",
    },
    "matrix": {
        "--budget": f"{RELEASES}::test_each_broker_runs_and_the_worst_counts",
        "--out": f"{RELEASES}::test_each_broker_runs_and_the_worst_counts",
        "--requirement": f"{RELEASES}::test_each_broker_runs_and_the_worst_counts",
    },
    "bisect": {
        "--broker": f"{RELEASES}::test_bad_input_says_what_is_right",
        "--out": f"{RELEASES}::test_a_release_that_leaves_no_report_is_not_told",
        "--releases": f"{RELEASES}::test_bad_input_says_what_is_right",
    },
    "diff": {"--format": "tests/fast/reports/render/test_changes.py::test_diff_prints_and_decides"},
    "doctor": {"--install": f"{CLI}::test_doctor_reports", "--json": f"{CLI}::test_doctor_reports"},
    "completion": {},
    "password": {},
    "report": {},
}


def flags_in(text: str) -> list[str]:
    """The flags that a command's help explains."""
    found = re.findall(r"^(?:  |)(?:-\w, )?(--[a-z][a-z-]+)", text, re.MULTILINE)
    return sorted({flag for flag in found if flag != "--help"})


@cache
def names_in(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("command", [*COMMANDS, "campaign mutants"])
def test_every_flag_has_a_test(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main([*command.split(), "--help"]) == OK
    assert sorted(TESTS[command]) == flags_in(capsys.readouterr().out)
    for flag, where in TESTS[command].items():
        path, name = where.split("::")
        assert name in names_in(ROOT / path), f"{command} {flag}: {where} does not exist"

"""Late data is told when it is detected and when its run has ended, once each; every report is kept."""

from __future__ import annotations

import json
from dataclasses import replace

import dagster as dg
import pytest

from feed_assets.file_feed import latest, read_file
from feed_assets.notices import delivery
from feed_assets.notices.keeping import LOCATION
from feed_assets.notices.tables import LEASE, record_sent
from feed_assets.resources.notifier import Alert, MailResource, Notifier
from feed_assets_tests.harness import ADS, AS_OF, DAY, EFFECTIVENESS, NEXT_DAY, Installation, before_state
from feed_assets_tests.notices.conftest import FIGURES, Shop
from feed_assets_tests.notices.post_office import PASSWORD

DETECTED = f"Late data for {DAY}: ads/shop_ads +10.0 %"
AGAIN = f"Late data for {DAY} processed again: ads/shop_ads +10.0 %"
GONE_BACK = f"Late data for {DAY} gone back: ads/shop_ads +10.0 %"
GREW = {"c1": (120, 6, "12.5"), "c2": (50, 1, "5"), "c3": (10, 0, "1")}


def kept(desk: Installation, day: str = DAY) -> list[dict[str, str]]:
    """The reports on a day, as a plain reader of the feed finds them."""
    update = latest(desk.feed(LOCATION), day, now=desk.now)
    return (
        [json.loads(line) for file in update.files for line in read_file(update, file).splitlines()] if update else []
    )


def test_late_data_is_told_in_the_first_tick_after_its_detection_and_once(processed: Shop) -> None:
    processed.grow()

    for _ in range(2):
        processed.report()

    assert processed.office.subjects == [DETECTED]
    to, mail = processed.office.mails[0]
    assert to == ["ads@example.com", "all@example.com"]
    text = mail.get_body(("plain",)).get_content()
    assert "ads/shop_ads 2019-11-24: grown, +10 % (threshold 5 %): 1,000 -> 1,100 bytes, 1 -> 2 files" in text
    assert f"{ADS} 20191201.000000" in text


def test_when_that_run_has_ended_a_mail_compares_before_and_after(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.report()
    assert processed.office.subjects == [DETECTED]
    processed.publish(run, GREW)
    processed.report()
    assert processed.office.subjects == [DETECTED]  # it has published, and still runs

    processed.end(run)
    tick = processed.report()

    assert processed.office.subjects == [DETECTED, AGAIN]
    mail = processed.office.mails[1][1]
    text = " ".join(mail.get_body(("plain",)).get_content().split())
    assert "impressions 150 180 +20.0 %" in text
    assert "clicks 5 7 +40.0 %" in text
    assert "cost 15.5 18.5 +19.4 %" in text
    assert "CTR 3.333 % 3.889 % +0.556 points" in text
    # Those that moved most come first.
    assert text.index("c1 100 -> 120") < text.index("c3 - -> 10") < text.index("c2 50 -> 50")
    assert f"feed-assets feed diff {processed.desk.feed(EFFECTIVENESS).uri} -p {DAY} --from 2019" in text
    assert "--key ad_id " in text
    html = mail.get_body(("html",)).get_content()
    (plot,) = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    assert f'src="cid:{plot["Content-ID"].strip("<>")}"' in html
    assert plot.get_content().startswith(b"\x89PNG")
    assert tick.reported == [("late_data_reports", DAY, latest(processed.desk.feed(LOCATION), DAY, now=AS_OF).name)]
    assert processed.open == []
    assert processed.report().events == ()


def test_the_growth_in_a_subject_is_never_more_than_it_was(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.publish(run, GREW)
    processed.end(run)
    processed.grow(67, "later")  # 6.09 %

    processed.report()

    assert f"Late data for {DAY}: ads/shop_ads +6.0 %" in processed.office.subjects


def test_the_table_in_the_ui_has_times_to_the_second_so_that_nothing_of_it_is_cut_off(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.end(run, good=False)

    (event,) = processed.report().events
    ((row,),) = [event.metadata["reports"].records]
    assert row.data["run"] == run
    assert [len(row.data[name]) for name in ("requested", "ended")] == [len("2019-12-01 06:00:00")] * 2


@pytest.mark.parametrize(("outcome", "words"), [("failed", "failed"), ("success", "processed again")])
def test_the_last_end_of_a_run_counts_that_dagster_has_tried_again(processed: Shop, outcome, words) -> None:
    tick = processed.grow()
    (first,) = processed.start(tick)
    instance = processed.desk.instance
    instance.add_run_tags(first, {"dagster/will_retry": "true"})
    processed.end(first, good=False)
    processed.report()
    assert processed.office.subjects == [DETECTED]  # Dagster is about to try again

    (second,) = processed.start(tick)
    instance.add_run_tags(first, {"dagster/auto_retry_run_id": second})
    processed.report()
    assert processed.office.subjects == [DETECTED]
    processed.end(second, good=outcome == "success")
    processed.report()

    assert processed.office.subjects == [DETECTED, f"Late data for {DAY} {words}: ads/shop_ads +10.0 %"]
    assert [(each["outcome"], each["run"]) for each in kept(processed.desk)] == [(outcome, second)]


def test_a_rejected_result_is_told_with_its_reason_and_what_stays_in_force(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.publish(run, GREW, good=False)
    check = dg.AssetCheckEvaluation(
        dg.AssetKey("ad_effectiveness"), "not_empty", passed=False, metadata={"rows": 0}, blocking=True
    )
    event = dg.DagsterEvent(dg.DagsterEventType.ASSET_CHECK_EVALUATION.value, "__ASSET_JOB", event_specific_data=check)
    processed.desk.instance.report_dagster_event(event, run)
    processed.end(run, good=False)

    processed.report()

    assert processed.office.subjects[-1] == f"Late data for {DAY} rejected by its checks: ads/shop_ads +10.0 %"
    text = processed.office.mails[-1][1].get_body(("plain",)).get_content()
    assert "ad_effectiveness not_empty: rows 0" in text
    assert f"{EFFECTIVENESS}: rejected; 20191201.000000 stays in force." in text
    assert f"{ADS}: 20191201.000000 -> " in text  # the same run published the ads


def test_two_ticks_at_once_report_one_run_once(processed: Shop) -> None:
    tick = processed.grow()
    assert processed.desk.tick("late_growth").asked == {}
    (run,) = processed.start(tick)
    processed.end(run)
    (report,) = processed.open
    other = processed.later(hours=0)

    def meanwhile() -> None:
        processed.desk = plain
        other.report()

    plain = processed.desk
    processed.desk = before_state(plain, "writing", meanwhile)
    processed.report()

    assert sorted(processed.office.subjects) == sorted([DETECTED, AGAIN])
    assert [each["id"] for each in kept(plain)] == [report.id]


def test_a_request_that_never_became_a_run_is_no_report_and_its_repetition_is_not_told_again(processed: Shop) -> None:
    processed.grow()
    processed.report()
    later = processed.later(hours=1)
    repeated = later.desk.tick("late_growth")
    assert repeated.asked == {DAY: ("ad_effectiveness", "clean_ads")}

    later.report()
    assert processed.office.subjects == [DETECTED]
    assert len(processed.open) == 1

    (run,) = later.start(repeated)
    later.end(run)
    later.report()
    assert processed.office.subjects == [DETECTED, AGAIN]


def test_a_request_that_a_newer_one_replaced_is_kept_and_not_told(processed: Shop) -> None:
    processed.grow()
    later = processed.later(hours=1)
    tick = later.grow(name="later")
    (run,) = later.start(tick)
    later.end(run)

    later.report()

    assert processed.office.subjects[-1] == f"Late data for {DAY} processed again: ads/shop_ads +20.0 %"
    assert [each["outcome"] for each in kept(later.desk)] == ["superseded", "success"]
    assert processed.office.subjects.count(AGAIN) == 0


def test_a_report_ends_if_the_data_went_back_before_a_run_began(processed: Shop) -> None:
    processed.grow()
    processed.report()
    processed.remove("late")
    processed.later(minutes=5).report()
    assert len(processed.open) == 1  # the request may still become a run

    later = processed.later(hours=1)
    assert later.desk.tick("late_growth").asked == {}
    later.report()

    assert processed.office.subjects == [DETECTED, GONE_BACK]
    assert "Before a run began" in processed.office.mails[1][1].get_body(("plain",)).get_content()
    assert [each["outcome"] for each in kept(later.desk)] == ["gone back"]
    assert processed.open == []


def test_a_report_ends_if_its_request_was_lost_and_the_update_of_another_run_was_rejected(processed: Shop) -> None:
    processed.grow()
    processed.desk.process(good=False, run_id="by hand")

    later = processed.later(hours=1)
    assert later.desk.tick("late_growth").asked == {}
    later.report()

    rejected = f"Late data for {DAY} rejected by its checks: ads/shop_ads +10.0 %"
    assert processed.office.subjects == [DETECTED, rejected]
    assert "bad data" in processed.office.mails[1][1].get_body(("plain",)).get_content()
    assert [(each["outcome"], each["run"]) for each in kept(later.desk)] == [("rejected", "by hand")]
    assert processed.open == []


def test_the_end_is_told_also_if_the_request_was_lost_and_another_run_processed_the_day(processed: Shop) -> None:
    processed.grow()
    processed.report()
    later = processed.later(minutes=5)
    later.publish("by hand", GREW)
    later.report()
    assert processed.office.subjects == [DETECTED]  # the request may still become a run

    later.later(minutes=10).report()

    assert processed.office.subjects == [DETECTED, AGAIN]
    assert "impressions 150 180 +20.0 %" in " ".join(
        processed.office.mails[1][1].get_body(("plain",)).get_content().split()
    )
    assert processed.open == []


def test_the_end_is_told_also_if_dagsters_database_was_lost_with_the_run(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.report()
    processed.publish(run, GREW)
    processed.end(run)
    processed.desk.instance.wipe()

    processed.later(hours=1).report()

    assert processed.office.subjects == [DETECTED, AGAIN]
    assert [(each["outcome"], each["run"]) for each in kept(processed.desk)] == [("success", run)]


def test_a_second_attempt_after_a_failure_tells_only_its_end(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.end(run, good=False)
    processed.report()
    assert not processed.desk.tick("late_growth").asked
    later = processed.later(hours=1)
    (second,) = later.start(later.desk.tick("late_growth"))
    later.end(second)
    later.report()

    failed = f"Late data for {DAY} failed: ads/shop_ads +10.0 %"
    assert processed.office.subjects == [DETECTED, failed, AGAIN]
    assert [each["outcome"] for each in kept(later.desk)] == ["failed", "success"]


def test_a_day_that_was_never_processed_is_not_late(processed: Shop) -> None:
    tick = processed.grow(day=NEXT_DAY)
    processed.start(tick, dg.DagsterRunStatus.SUCCESS)

    processed.report()

    assert list(tick.asked) == [NEXT_DAY]
    assert processed.office.subjects == []


def test_days_that_are_late_together_are_reported_each_by_itself(processed: Shop) -> None:
    processed.desk.raw_bytes(NEXT_DAY, {"x": 1000})
    processed.publish("first", FIGURES, NEXT_DAY)
    processed.desk.raw_bytes(NEXT_DAY, {"late": 100})
    runs = processed.start(processed.grow())
    assert len(runs) == 2
    for run in runs:
        processed.end(run)

    processed.report()

    assert sorted(processed.office.subjects) == sorted(
        each.replace(DAY, day) for day in (DAY, NEXT_DAY) for each in (DETECTED, AGAIN)
    )
    assert [len(kept(processed.desk, day)) for day in (DAY, NEXT_DAY)] == [1, 1]


def test_mail_that_the_server_refuses_is_sent_later_and_never_twice(processed: Shop, monkeypatch) -> None:
    processed.grow()
    processed.office.answer = "451 try later"
    tick = processed.report()
    assert "did not take a mail (SMTPDataError, code 451)" in tick.skipped
    processed.office.answer = ""
    processed.report()
    assert processed.office.subjects == []  # it pauses first

    monkeypatch.setattr("feed_assets.notices.tables.FIRST_PAUSE", -LEASE)
    with processed.desk.store.writing() as transaction:
        transaction.connection.exec_driver_sql("UPDATE feed_assets_messages SET leased_until = ''")
    for _ in range(2):
        processed.report()
    assert processed.office.subjects == [DETECTED]


def test_dollars_in_the_name_of_a_group_are_no_formula(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.publish(run, FIGURES | {"Save $10 - 20% vs $30": (200, 4, "10.5")})
    processed.end(run)

    processed.report()

    assert processed.office.subjects == [DETECTED, AGAIN]
    assert "Save $10 - 20% vs $30" in processed.office.mails[1][1].get_body(("plain",)).get_content()


def test_a_channel_that_breaks_is_tried_later_and_the_others_get_the_message(processed: Shop) -> None:
    asked: list[str] = []

    class Chat(Notifier):
        def notify(self, alert: Alert) -> None:
            asked.append(alert.id)
            raise KeyError(f"https://chat.example/{PASSWORD}")

    shop = replace(processed, desk=processed.desk.using(notifier=Chat()))
    shop.grow()

    tick = shop.report()

    assert processed.office.subjects == [DETECTED]
    assert len(asked) == len(shop.open) == 1
    assert "was not taken: notifier raised KeyError. It is sent again after" in tick.skipped
    assert all(remark.startswith(f"{DAY}: ") for remark in tick.skipped.split("; "))
    assert PASSWORD not in tick.skipped


def test_a_mail_sent_by_a_process_that_died_right_then_is_sent_again_under_the_same_id(
    processed: Shop, monkeypatch
) -> None:
    processed.grow()

    def dies(*_: object, **__: object) -> None:
        raise SystemExit

    monkeypatch.setattr(delivery, "record_sent", dies)
    with pytest.raises(SystemExit):
        processed.report()
    monkeypatch.setattr(delivery, "record_sent", record_sent)
    processed.report()
    assert processed.office.subjects == [DETECTED]  # until the lease ends, it may be under way

    with processed.desk.store.writing() as transaction:
        transaction.connection.exec_driver_sql("UPDATE feed_assets_messages SET leased_until = ''")
    processed.report()

    assert processed.office.subjects == [DETECTED, DETECTED]
    assert len({mail["Message-ID"] for _, mail in processed.office.mails}) == 1


def test_a_recipient_that_the_server_does_not_know_does_not_keep_the_others_from_getting_it(processed: Shop) -> None:
    processed.office.strangers = frozenset({"ads@example.com"})
    processed.grow()

    tick = processed.report()

    assert [to for to, _ in processed.office.mails] == [["all@example.com"]]
    assert "mailed to 1 of 2, not to ads@example.com" in tick.skipped


def test_a_recipient_that_the_server_puts_off_gets_the_mail_later_and_the_others_not_again(
    processed: Shop, monkeypatch
) -> None:
    processed.office.greylisted = frozenset({"ads@example.com"})
    (run,) = processed.start(processed.grow())
    processed.end(run)
    tick = processed.report()
    assert [to for to, _ in processed.office.mails] == [["all@example.com"]] * 2
    assert "mailed to 1 of 2, not to ads@example.com until after" in tick.skipped
    assert len(processed.open) == 1

    monkeypatch.setattr("feed_assets.notices.tables.FIRST_PAUSE", -LEASE)
    for greylisted in (processed.office.greylisted, frozenset(), frozenset()):
        processed.office.greylisted = greylisted
        with processed.desk.store.writing() as transaction:
            transaction.connection.exec_driver_sql("UPDATE feed_assets_messages SET leased_until = ''")
        processed.report()

    late = [(to, mail["Subject"]) for to, mail in processed.office.mails[2:]]
    assert late == [(["ads@example.com"], DETECTED), (["ads@example.com"], AGAIN)]
    assert len({mail["Message-ID"] for _, mail in processed.office.mails}) == 2
    assert processed.open == []


def test_the_webhook_gets_both_messages_each_under_its_own_id(processed: Shop) -> None:
    sent: list[Alert] = []

    class Chat(Notifier):
        def notify(self, alert: Alert) -> None:
            sent.append(alert)

    shop = replace(processed, desk=processed.desk.using(notifier=Chat()))
    (run,) = shop.start(shop.grow())
    shop.report()
    shop.end(run)
    for _ in range(2):
        shop.report()

    assert [(each.kind, each.partition, each.run_id) for each in sent] == [
        ("late data", DAY, ""),
        ("reprocessed", DAY, run),
    ]
    (report,) = kept(shop.desk)
    assert [each.id for each in sent] == [f"{report['id']}.detected", f"{report['id']}.ended"]
    assert sent[1].text.startswith(f"Late data was processed: clean_ads, ad_effectiveness {DAY}")
    assert processed.office.subjects == [DETECTED, AGAIN]


def test_when_the_database_is_lost_the_kept_reports_remain_and_new_ones_are_added(processed: Shop) -> None:
    (run,) = processed.start(processed.grow())
    processed.publish(run, GREW)
    processed.end(run)
    processed.report()
    for file in (processed.desk.base / ".state").iterdir():
        file.unlink()

    (run,) = processed.start(processed.grow(200, "more"))
    processed.end(run)
    processed.report()

    assert [each["outcome"] for each in kept(processed.desk)] == ["success", "success"]


def run_and_report(shop: Shop) -> None:
    """A tick requests a run, which succeeds; people are told of both."""
    (run,) = shop.start(shop.desk.tick("late_growth"))
    shop.report()
    shop.publish(run, GREW)
    shop.end(run)
    shop.report()


def test_data_that_went_back_and_came_again_is_late_again_and_told_and_kept(processed: Shop) -> None:
    processed.grow()
    processed.report()
    path = processed.desk.base / "raw/ads/shop_ads" / DAY / "12/late.parquet"
    aside = path.rename(processed.desk.base / "aside")
    later = processed.later(hours=1)
    later.desk.tick("late_growth")
    later.report()

    aside.rename(path)
    again = later.later(hours=1)
    run_and_report(again)

    assert processed.office.subjects == [DETECTED, GONE_BACK, DETECTED, AGAIN]
    assert [each["outcome"] for each in kept(again.desk)] == ["gone back", "success"]


def test_data_that_is_late_again_after_other_data_took_its_place_is_told_and_kept(processed: Shop) -> None:
    processed.grow()
    later = processed.later(hours=1)
    later.grow(name="more")
    later.report()
    processed.remove("more")

    again = later.later(hours=1)
    run_and_report(again)

    assert processed.office.subjects[-1] == AGAIN
    assert [each["outcome"] for each in kept(again.desk)][-1] == "success"
    assert again.open == []


def due_again(shop: Shop) -> None:
    """Whatever was put off may be sent now."""
    with shop.desk.store.writing() as transaction:
        transaction.connection.exec_driver_sql("UPDATE feed_assets_messages SET leased_until = ''")


def test_recipients_that_the_server_refuses_are_told_once_and_never_tried_again(processed: Shop) -> None:
    processed.office.strangers = frozenset({"ads@example.com", "all@example.com"})
    (run,) = processed.start(processed.grow())
    processed.end(run)

    tick = processed.report()

    assert "mailed to 0 of 2, not to ads@example.com and not again (550)" in tick.skipped
    assert processed.open == []
    asked = len(processed.office.asked)
    due_again(processed)
    assert "550" not in processed.report().skipped
    assert len(processed.office.asked) == asked == 4


def test_a_refused_recipient_is_not_asked_about_again_while_the_others_are_put_off(
    processed: Shop, monkeypatch
) -> None:
    monkeypatch.setattr("feed_assets.notices.tables.FIRST_PAUSE", -LEASE)
    processed.office.strangers = frozenset({"ads@example.com"})
    processed.office.answer = "451 try later"
    processed.grow()
    assert "not to ads@example.com and not again (550)" in processed.report().skipped

    processed.office.answer = ""
    due_again(processed)
    tick = processed.report()

    assert "mailed to 1 of 1" in tick.skipped
    assert [to for to, _ in processed.office.mails] == [["all@example.com"]]
    assert processed.office.asked == ["ads@example.com", "all@example.com", "all@example.com"]


def test_addresses_of_all_kinds_get_one_mail_each(processed: Shop) -> None:
    recipients = ["All <ALL@example.com>", "all@example.com", '"on call"@example.com', "späte@example.com"]
    url = f"smtp://127.0.0.1:{processed.office.port}"
    mail = MailResource(url=url, sender="late@example.com", recipients=recipients)
    shop = replace(processed, desk=processed.desk.using(mail=mail))
    shop.grow()

    for _ in range(2):
        shop.report()

    plain = ['"on call"@example.com', "ALL@example.com", "ads@example.com"]
    assert [to for to, _ in shop.office.mails] == [plain, ["späte@example.com"]]


def test_a_message_that_nobody_takes_for_days_is_given_up_and_its_report_is_kept(processed: Shop, monkeypatch) -> None:
    monkeypatch.setattr(delivery, "MOST_ATTEMPTS", 2)
    processed.office.greylisted = frozenset({"ads@example.com", "all@example.com"})
    (run,) = processed.start(processed.grow())
    processed.end(run)
    assert "ads@example.com: 450, all@example.com: 450. It is sent again after" in processed.report().skipped

    due_again(processed)
    assert "It is given up after five days" in processed.report().skipped

    assert processed.open == []
    assert [each["outcome"] for each in kept(processed.desk)] == ["success"]

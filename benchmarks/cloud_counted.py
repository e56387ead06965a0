"""The counted runs, through the proxy: the calls each side makes to Firestore, and the billed operations.

The tests' proxy runs on a thread of the load generator, so these runs are counted and never timed.
"""

from __future__ import annotations

import time

import msgspec

from benchmarks import cloud_runs, cloud_setting, cloud_verify, messages
from benchmarks.cloud_results import CONNECTIONS, DOCUMENTS, MANY_CONNECTIONS, TICKS, Counted
from benchmarks.cloud_setting import Cloud
from benchmarks.processes import BenchError
from tests.common.firestore_proxy import FirestoreProxy

_TICKS_OFF = {"EVENT_LOG": "off", "TICK_HISTORY": "off"}
_TICKS_AGO_S = 3_600


def baseline(cloud: Cloud, proxy: FirestoreProxy) -> Counted:
    sent = cloud.messages(DOCUMENTS, cloud.sizes.counted_baseline)
    with cloud.project() as project:
        before = proxy.total()
        report = cloud_runs.run_baseline(cloud, sent, project, cloud.sizes.baseline_s, proxy.address)
        counts = proxy.total().since(before)
        faults = cloud_verify.find_faults(project, sent, set(report.done))
    if not report.done:
        raise BenchError("the baseline did nothing at all through the proxy")
    return Counted(what=f"baseline, {DOCUMENTS} documents", messages=len(report.done), counts=counts, faults=faults)


def push(cloud: Cloud, proxy: FirestoreProxy) -> Counted:
    count = cloud.sizes.counted_push
    sent = cloud.messages(DOCUMENTS, count)
    bodies = [message.push_body() for message in sent]
    with cloud.project() as project:
        with cloud.server(project, proxy.address) as server:
            before = proxy.total()
            tally = cloud_setting.push(server, bodies)
            counts = proxy.total().since(before)
        faults = cloud_setting.faults_of(tally, count)
        faults += cloud_verify.find_faults(project, sent, {message.message_id for message in sent})
        logged = cloud_verify.count_segments(project)
    what = f"Millpond, HTTP push, {CONNECTIONS} in flight, {DOCUMENTS} documents"
    return Counted(what=what, messages=count, counts=counts, faults=faults, log_writes=logged)


def receipts(cloud: Cloud, proxy: FirestoreProxy, which: str) -> Counted:
    """With more in flight, and RECEIPTS as `which`. What is right is told by the event log, not by receipts."""
    count = cloud.sizes.counted_push
    sent = cloud.messages(DOCUMENTS, count)
    bodies = [message.push_body() for message in sent]
    with cloud.project() as project:
        with cloud.server(project, proxy.address, {"RECEIPTS": which}) as server:
            before = proxy.total()
            tally = cloud_setting.push(server, bodies, MANY_CONNECTIONS)
            counts = proxy.total().since(before)
        settings = cloud_setting.settings_of(project, cloud.firestore)
        verified = cloud_setting.run_python(["millpond", "verify", "--json"], settings, count)
        faults = cloud_setting.faults_of(tally, count)
        faults += cloud_verify.find_faults_by_log(msgspec.json.decode(verified), sent)
        logged = cloud_verify.count_segments(project)
    what = f"Millpond, HTTP push, {MANY_CONNECTIONS} in flight, {DOCUMENTS} documents, RECEIPTS={which}"
    return Counted(what=what, messages=count, counts=counts, faults=faults, log_writes=logged)


def ticks(cloud: Cloud, proxy: FirestoreProxy, *, shuffled: bool) -> Counted:
    """A thousand ticks of one symbol after one that warms up: its document is then known, and is not read again."""
    symbol = "TICK"
    start = int(time.time()) - _TICKS_AGO_S
    (first,) = messages.ticks(symbol, ("0001", start - 1), 1, shuffled=False)
    bodies = messages.ticks(symbol, ("0002", start), TICKS, shuffled=shuffled)
    with cloud.project() as project:
        with cloud.server(project, proxy.address, _TICKS_OFF) as server:
            cloud_setting.push(server, [first])
            before = proxy.total()
            tally = cloud_setting.push(server, bodies)
            counts = proxy.total().since(before)
        faults = cloud_setting.faults_of(tally, TICKS)
        # The newest tick has the number of ticks for a price.
        price = cloud_verify.tick_price(project, symbol)
        if price != TICKS:
            faults.append(f"the document's price is {price}, the newest tick's is {TICKS}")
    order = "shuffled" if shuffled else "in order"
    return Counted(what=f"Millpond, ticks of one symbol, {order}", messages=TICKS, counts=counts, faults=faults)

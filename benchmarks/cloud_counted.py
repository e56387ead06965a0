"""The counted runs, through the proxy: the calls each side makes to Firestore, and the billed operations.

The tests' proxy runs on a thread of the load generator, so these runs are counted and never timed.
"""

from __future__ import annotations

import time

from benchmarks import cloud_runs, cloud_setting, cloud_verify, messages
from benchmarks.cloud_results import CONNECTIONS, DOCUMENTS, TICKS, Counted
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
    what = f"Millpond, HTTP push, {CONNECTIONS} in flight, {DOCUMENTS} documents"
    return Counted(what=what, messages=count, counts=counts, faults=faults)


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

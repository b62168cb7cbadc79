import copy
import pickle
from threading import Thread

from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_commons.documentation import OFFICERS_PAGE
from gbdt_parties.messages import Done, Refusal
from gbdt_parties.traffic import Flow, Traffic
from sent_bytes import bytes_from
from xgb_fed.vertical.protocol.messages import Gradients

PARTIES = st.sampled_from(["active", "bank", "insurer"])
SENT = st.lists(
    st.tuples(
        PARTIES,
        PARTIES,
        st.sampled_from([Done(), Refusal("no", 0), Gradients(0, 0, b"x" * 5), Gradients(0, 1, b"x" * 70)]),
        st.integers(1, 10**12),
    ),
    max_size=30,
)


def counted(sent, encrypted=True):
    traffic = Traffic(encrypted)
    for message in sent:
        traffic.count(*message)
    return traffic


@given(SENT)
@settings(max_examples=40)
def test_messages_and_bytes_add_up(sent):
    traffic = counted(sent)
    for (sender, receiver, kind), flow in traffic.flows.items():
        own = [(m, n) for s, r, m, n in sent if (s, r, type(m).__name__) == (sender, receiver, kind)]
        assert flow.messages == len(own) > 0
        assert flow.bytes == sum(n for _, n in own)
        assert flow.ciphertext_bytes == sum(len(getattr(m, "values", b"")) for m, _ in own)
    assert sum(flow.messages for flow in traffic.flows.values()) == len(sent)
    for party in ("active", "bank", "nobody"):
        assert bytes_from(traffic, party) == sum(n for s, _, _, n in sent if s == party)


@given(SENT)
@settings(max_examples=40)
def test_rows_of_the_table_are_the_flows(sent):
    for encrypted in (True, False):
        traffic = counted(sent, encrypted)
        rows = traffic.to_dicts()
        assert [row["bytes"] for row in rows] == [flow.bytes for flow in traffic.flows.values()]
        for row in rows:
            gradients = row["message"] == "Gradients"
            clear = "clear text (no encryption)" if gradients else "clear"
            assert row["content"] == ("ciphertext" if encrypted and gradients else clear)
            assert (row["ciphertext_bytes"] > 0) == (encrypted and gradients)
        *lines, last = str(traffic).splitlines()
        assert last == OFFICERS_PAGE
        assert len(lines) == 1 + len(rows)
        for line, row in zip(lines[1:], rows, strict=True):
            assert line.split()[:5] == [
                *(row[name] for name in ("from", "to", "message")),
                *(f"{row[name]:,}" for name in ("count", "bytes")),
            ]


@given(SENT)
@settings(max_examples=40)
def test_copies_go_on_counting_by_themselves(sent):
    traffic = counted(sent, False)
    for other in (pickle.loads(pickle.dumps(traffic)), copy.deepcopy(traffic)):
        assert (other.flows, other.encrypted) == (traffic.flows, False)
        other.count("bank", "active", Done(), 5)
        assert bytes_from(other, "bank") == bytes_from(traffic, "bank") + 5


def test_no_message_is_lost_between_threads():
    class Slow(Done, kind=30_001):
        """Gives other threads their turn between reading a sum and writing it."""

        @property
        def ciphertext_bytes(self):
            import time

            time.sleep(0.0005)
            return 1

    traffic = Traffic()
    threads = [
        Thread(target=lambda: [traffic.count("a", "b", Slow(), 3) for _ in range(50)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert traffic.flows == {("a", "b", "Slow"): Flow(200, 600, 200)}


def test_traffic_of_later_times_is_what_is_left():
    earlier, later = Traffic(), Traffic()
    for traffic, times in ((earlier, 2), (later, 5)):
        for _ in range(times):
            traffic.count("active", "bank", Done(), 3)
        traffic.count("bank", "active", Done(), 7)
    assert later.less(earlier).flows == {("active", "bank", "Done"): Flow(3, 9, 0)}
    assert later.less(Traffic()).flows == later.flows


def test_notebooks_get_a_table_whose_texts_are_escaped():
    traffic = Traffic(restarts=["<b>bank</b> was lost"])
    traffic.count("active", "<script>", Done(), 1234)
    page = traffic._repr_html_()
    assert "<script>" not in page
    assert '<td style="text-align: left">&lt;script&gt;</td>' in page
    assert "1,234" in page
    assert "<li>&lt;b&gt;bank&lt;/b&gt; was lost</li>" in page

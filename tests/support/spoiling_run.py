"""A transport on which one party's answers and requests are spoilt, again and again."""

import random
from collections import Counter

from ofcl.engines.messages import unpack_request
from ofcl.federation.transport import Delivery
from tests.support.federation import InProcess
from tests.support.remote import over_the_wire
from tests.support.spoilt_messages import spoil_answer, spoil_request

CULPRIT = 2
AT_ONCE = 12  # spoilt messages before a right one


class SpoiltMessages(InProcess):
    """Before each right answer with an update come spoilt ones, before each request, too.

    Args:
        members: The parties.
        answers: How many spoilt answers there are in all.
        requests: How many spoilt requests there are in all.
        seed: What is drawn.
        at_once: How many of each come before a right one.
    """

    def __init__(self, members, answers, requests, seed=0, at_once=AT_ONCE):
        super().__init__(members)
        self._left = {"answers": answers, "requests": requests}
        self._draw, self._at_once = random.Random(seed), at_once
        self.answered, self.requested, self.obeyed = Counter(), Counter(), []
        self.example, self.engine = None, None

    def _times(self, what):
        times = min(self._at_once, self._left[what])
        self._left[what] -= times
        return range(times)

    def fetch(self, messages):
        found = {}
        for message in messages:
            party, content = self.sent.pop(message)
            if party != CULPRIT or "request" not in content or self.engine is None:
                self.sent[message] = party, content
                found |= super().fetch([message])
                continue
            if content["request"]["exchange"] > 1:
                self._send_spoilt_requests(content)
            right = over_the_wire(self.members[party].answer(content))
            if right.get("update") is not None:
                self._send_spoilt_answers(right, unpack_request(content["request"]))
            found[message] = Delivery(right)
        return found

    def _send_spoilt_requests(self, content):
        for _ in self._times("requests"):
            spoilt = over_the_wire(content)
            kind = spoil_request(spoilt, self._draw)
            try:
                self.members[CULPRIT].answer(spoilt)
                self.obeyed.append(kind)
            except Exception:  # `FlowerConnection` stays, whatever it is
                self.requested[kind] += 1

    def _send_spoilt_answers(self, right, request):
        self.example = right
        intake = self.engine()._intake
        intake._quarantine._most = 10**9
        for _ in self._times("answers"):
            spoilt = over_the_wire(right)
            kind = spoil_answer(spoilt, self._draw, CULPRIT)
            assert intake.read(spoilt, request, CULPRIT) is None, kind
            self.answered[kind] += 1

"""A management site without sockets, of a pair's node: requests in, answers out, everything at once."""

from __future__ import annotations

import json
from typing import Any

from brokerproof.reference_broker.core.events import Operation
from brokerproof.reference_broker.management.bean_registry import BeanRegistry
from brokerproof.reference_broker.management.broker_view import BrokerView
from brokerproof.reference_broker.management.jolokia import Jolokia
from brokerproof.reference_broker.management.metrics import Metrics
from brokerproof.reference_broker.management.site import Authenticator, Response, Site
from brokerproof.reference_broker.session.actions import Answered
from tests.fast.reference_broker.node.wire_pair import Pair

BROKER = "org.apache.activemq:type=Broker,brokerName=b"
LOCAL = {"host": "127.0.0.1:8161", "origin": "http://localhost"}


class Manager:
    """The site of a pair's node."""

    def __init__(
        self, pair: Pair | None = None, *, authenticator: Authenticator | None = None, local: bool = True
    ) -> None:
        self.pair = pair if pair is not None else Pair()
        self.view = BrokerView(self.pair.node, self.pair.now, {"stomp": "stomp://127.0.0.1:61613"}, "1.2.3")
        #: How often the broker was let go on in the middle of an answer.
        self.rests = 0
        self.site = Site(
            Jolokia(BeanRegistry(self.view), self._submit, self._defer),
            Metrics(self.view, self._defer),
            lambda work, then: then(work()),
            authenticator,
            local=local,
        )

    def _submit(self, operation: Operation, then: Any) -> None:
        self.pair.node.submit(operation, self.pair.now())
        (answer,) = [action for action in self.pair.node.take_actions() if isinstance(action, Answered)]
        then(answer)

    def _defer(self, call: Any) -> None:
        self.rests += 1
        call()

    def page(self, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Response:
        pages: list[Response] = []
        self.site.ask(method, target, LOCAL if headers is None else headers, body, pages.append)
        (page,) = pages
        return page

    def post(self, request: object) -> Any:
        page = self.page("POST", "/jolokia/", json.dumps(request).encode())
        return json.loads(page.body) if page.status == 200 else page

    def read(self, name: str = "", attribute: object = None) -> Any:
        row = {"type": "read", "mbean": BROKER + name}
        return self.post(row if attribute is None else {**row, "attribute": attribute})

    def value(self, name: str = "", attribute: object = None) -> Any:
        answer = self.read(name, attribute)
        assert answer["status"] == 200, answer
        return answer["value"]

    def execute(self, name: str, operation: str, *arguments: object) -> Any:
        row = {"type": "exec", "mbean": BROKER + name, "operation": operation, "arguments": list(arguments)}
        return self.post(row)


def queue(name: str = "q") -> str:
    return f",destinationType=Queue,destinationName={name}"

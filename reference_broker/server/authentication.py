"""Checks names and passwords beside the loop: a hash takes a tenth of a second, in which others are to be served.

* What can be said at once is: a password that was right before, the anonymous user, a missing name.
* At most ``WAITING_MAX`` checks wait; more are refused with a text that says so, because a queue of guesses must not
  keep those outside who know their password.
* A check that fails for want of memory, or by a mistake of ours, lets nobody in; whoever asked gets an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from brokerproof.reference_broker.security.authenticator import Authenticator, refusal
from brokerproof.reference_broker.security.identity import Credentials, Identity

WAITING_MAX: Final = 200
BUSY: Final = f"{WAITING_MAX} logins are being checked; try again in a few seconds"

#: Gets who it is, or None and why not.
Answer = Callable[[Identity | None, str], None]


class AsyncAuthenticator:
    """See the module's header."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._pool = ThreadPoolExecutor(2, "login")
        self._waiting = 0

    def ask(self, credentials: Credentials, answer: Answer) -> None:
        """``answer`` is called in the loop's thread, perhaps before this returns."""
        known = self._authenticator.recall(credentials)
        if known is not None:
            answer(known, "")
        elif self._authenticator.is_hopeless(credentials):
            answer(None, refusal(credentials.user))
        elif self._waiting >= WAITING_MAX:
            answer(None, BUSY)
        else:
            self._waiting += 1
            future = asyncio.get_running_loop().run_in_executor(self._pool, self._authenticator.check, credentials)
            future.add_done_callback(lambda done: self._answered(done, credentials, answer))

    def _answered(self, done: asyncio.Future[Identity | None], credentials: Credentials, answer: Answer) -> None:
        self._waiting -= 1
        if done.cancelled():
            return
        error = done.exception()
        if error is not None:
            answer(None, f"the password could not be checked here ({type(error).__name__}); try again")
            return
        identity = done.result()
        answer(identity, "" if identity is not None else refusal(credentials.user))

    def close(self) -> None:
        """No further checks."""
        self._pool.shutdown(wait=False, cancel_futures=True)

"""Which request a share session sends next: the rules, and their order.

A session has one request under way, so what goes first holds up the rest. The first rule that applies decides:

    rule         | applies when                                                 | request
    -------------+--------------------------------------------------------------+-----------------------
    renewals     | locks are to be renewed                                      | acknowledge: renewals
    unassigned   | partitions that are no longer wanted have acknowledgements   | acknowledge: of these
    partitions   | partitions are to be added and there is room for records, or | fetch
                 | the last ones are to be forgotten                            |
    awaited      | somebody waits for acknowledgements to be confirmed          | acknowledge: all
    refused      | refused acknowledgements are to be sent again in pieces      | acknowledge: all
    lingering    | acknowledgements have waited for others long enough, and no  | acknowledge: all
                 | fetch could take them along that gets its response at once   |
    confirmation | acknowledgements would ride on a fetch that waits for        | acknowledge: all
                 | records, and the user is one who commits                     |
    records      | there is room for records, and the broker has more, or       | fetch
                 | nobody is about to decide what is in hand                    |

A fetch carries acknowledgements along. If no rule applies, there is nothing to send. A rule that turns out to have no
acknowledgements to send is skipped.

The table above is generated from `REQUEST_RULES`, and a test compares them. Decides which rule applies to a situation;
`request_planner` describes the situation and builds the request.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple


class Action(Enum):
    """What a rule asks for."""

    RENEW = "acknowledge: renewals"
    """Separately: a request that renews may do nothing else."""
    SETTLE_UNASSIGNED = "acknowledge: of these"
    SETTLE = "acknowledge: all"
    FETCH = "fetch"


class Situation(NamedTuple):
    """Everything that the rules depend on."""

    has_decided: bool = False
    """There are acknowledgements or renewals to send, and the session is open."""
    has_unassigned: bool = False
    """And some leases belong to partitions that are no longer wanted."""
    has_changes: bool = False
    """The broker still has to add or to forget partitions."""
    forgets_all: bool = False
    """The session is open, and no partition is wanted any more."""
    has_capacity: bool = False
    """Partitions are wanted, and there is room for more of their records."""
    is_awaited: bool = False
    """A task waits for acknowledgements to be confirmed."""
    is_refused: bool = False
    """Refused acknowledgements have to be sent again, part by part."""
    has_lingered: bool = False
    """Acknowledgements have waited for others long enough."""
    broker_has_more: bool = False
    """The last fetch didn't return everything: the next gets its response at once."""
    commits: bool = False
    """The user has waited for a confirmation before, and may again at any moment."""
    is_settled_soon: bool = False
    """The user has just got all records, and most users decide at once: see `GRACE_S`."""


class RequestRule(NamedTuple):
    name: str
    when: str
    action: Action
    applies: Callable[[Situation], bool]


REQUEST_RULES = (
    RequestRule(
        "renewals",
        "locks are to be renewed",
        Action.RENEW,
        lambda now: now.has_decided,
    ),
    # Sent with a fetch, what they release would be acquired again.
    RequestRule(
        "unassigned",
        "partitions that are no longer wanted have acknowledgements",
        Action.SETTLE_UNASSIGNED,
        lambda now: now.has_decided and now.has_unassigned,
    ),
    RequestRule(
        "partitions",
        "partitions are to be added and there is room for records, or the last ones are to be forgotten",
        Action.FETCH,
        lambda now: now.has_changes and (now.has_capacity or now.forgets_all),
    ),
    RequestRule(
        "awaited",
        "somebody waits for acknowledgements to be confirmed",
        Action.SETTLE,
        lambda now: now.has_decided and now.is_awaited,
    ),
    RequestRule(
        "refused",
        "refused acknowledgements are to be sent again in pieces",
        Action.SETTLE,
        lambda now: now.has_decided and now.is_refused,
    ),
    RequestRule(
        "lingering",
        "acknowledgements have waited for others long enough, and no fetch could take them along that gets its "
        "response at once",
        Action.SETTLE,
        lambda now: now.has_decided and now.has_lingered and not (now.broker_has_more and now.has_capacity),
    ),
    # Acknowledgements on a fetch are applied at once, but only confirmed when the fetch gets a response.
    RequestRule(
        "confirmation",
        "acknowledgements would ride on a fetch that waits for records, and the user is one who commits",
        Action.SETTLE,
        lambda now: now.has_decided and now.has_capacity and now.commits and not now.broker_has_more,
    ),
    RequestRule(
        "records",
        "there is room for records, and the broker has more, or nobody is about to decide what is in hand",
        Action.FETCH,
        lambda now: now.has_capacity and (now.broker_has_more or not now.is_settled_soon),
    ),
)

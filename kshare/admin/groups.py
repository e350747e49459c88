"""Lists, describes and deletes groups.

One group per request, so that each error belongs to one group; `describe_share_groups` sorts the errors itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.expected_rows import expected_row
from kshare.admin.results import GroupDescription, GroupListing, Member
from kshare.admin.routing import Router, response_error
from kshare.errors import BrokerError
from kshare.net.permissions import Right
from kshare.protocol.messages import DeleteGroupsRequest, ListGroupsRequest, ShareGroupDescribeRequest
from kshare.protocol.messages import share_group_describe_response as described

_GROUPS_PER_REQUEST = 100


async def list_groups(router: Router, types: Iterable[str], states: Iterable[str]) -> list[GroupListing]:
    """Ask all brokers, since each knows only the groups that it coordinates."""
    found: dict[str, GroupListing] = {}
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    for broker in (await router.metadata([])).brokers:
        response = await router.ask_node(
            broker.node_id,
            request,
            lambda response: [response_error(response, "listing groups", Right("Describe", "cluster"))],
        )
        for row in response.groups:
            found[row.group_id] = GroupListing(
                row.group_id, row.group_type, row.group_state, row.protocol_type
            )
    return [found[name] for name in sorted(found)]


async def describe_share_group(router: Router, group: str) -> GroupDescription:
    needs = Right("Describe", "group", group), Right("Describe", "topic", "*")
    node, response = await router.ask_coordinator(
        group,
        ShareGroupDescribeRequest(group_ids=[group]),
        lambda response: [response_error(row, f"group {group}", *needs) for row in response.groups],
    )
    return _description(expected_row(response.groups, "ShareGroupDescribe", f"group {group}"), node, router)


async def describe_share_groups(
    router: Router, groups: Iterable[str]
) -> dict[str, GroupDescription | BrokerError]:
    """Describe many groups with few requests. A group that can't be described has its error as the result.

    Groups whose coordinator has moved, or isn't known, are asked one by one, which includes retries.
    """
    found: dict[str, GroupDescription | BrokerError] = {}
    names = list(groups)
    for start in range(0, len(names), _GROUPS_PER_REQUEST):
        some = names[start : start + _GROUPS_PER_REQUEST]
        for node, theirs in (await router.coordinators(some)).items():
            response = await router.ask_node(
                node, ShareGroupDescribeRequest(group_ids=theirs), lambda response: ()
            )
            found |= {
                group.group_id: _description(group, node, router)
                for group in response.groups
                if not group.error_code
            }
    for name in names:
        if name not in found:
            try:
                found[name] = await describe_share_group(router, name)
            except BrokerError as error:
                found[name] = error
    return found


def _description(found: described.DescribedGroup, node: int, router: Router) -> GroupDescription:
    return GroupDescription(
        group=found.group_id,
        state=found.group_state,
        coordinator=node,
        coordinator_address=router.address_of(node),
        epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor=found.assignor_name,
        members=tuple(_member(row) for row in sorted(found.members, key=lambda row: row.member_id)),
    )


def _member(row: described.Member) -> Member:
    assigned = (
        (topic.topic_name, partition)
        for topic in row.assignment.topic_partitions
        for partition in topic.partitions
    )
    return Member(
        member_id=row.member_id,
        client_id=row.client_id,
        host=row.client_host.removeprefix("/"),  # Java writes /10.0.0.7 for an address without a name
        rack=row.rack_id,
        epoch=row.member_epoch,
        topics=tuple(sorted(row.subscribed_topic_names)),
        assignment=tuple(sorted(assigned)),
    )


async def delete_group(router: Router, group: str) -> None:
    """Not retried if the response is lost: the response to the second request would be GROUP_ID_NOT_FOUND."""
    await router.ask_coordinator(
        group,
        DeleteGroupsRequest(groups_names=[group]),
        lambda response: [
            response_error(row, f"group {group}", Right("Delete", "group", group)) for row in response.results
        ],
        is_repeatable=False,
    )

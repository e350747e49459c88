"""Lists, describes and deletes groups. One group per request, so that each error belongs to one group."""

from __future__ import annotations

from collections.abc import Iterable

from kshare.admin.results import GroupDescription, GroupListing, Member
from kshare.admin.routing import Router, response_error
from kshare.net.permissions import Right
from kshare.protocol.messages import DeleteGroupsRequest, ListGroupsRequest, ShareGroupDescribeRequest
from kshare.protocol.messages import share_group_describe_response as described


async def list_groups(router: Router, types: Iterable[str], states: Iterable[str]) -> list[GroupListing]:
    """Ask all brokers, since each knows only the groups that it coordinates."""
    found: dict[str, GroupListing] = {}
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    for broker in (await router.metadata([])).brokers:
        answer = await router.ask_node(
            broker.node_id,
            request,
            lambda answer: [
                response_error(answer.error_code, "listing groups", needs=[Right("Describe", "cluster")])
            ],
        )
        for row in answer.groups:
            found[row.group_id] = GroupListing(
                row.group_id, row.group_type, row.group_state, row.protocol_type
            )
    return [found[name] for name in sorted(found)]


async def describe_share_group(router: Router, group: str) -> GroupDescription:
    node, answer = await router.ask_coordinator(
        group,
        ShareGroupDescribeRequest(group_ids=[group]),
        lambda answer: [
            response_error(
                one.error_code,
                f"group {group}",
                one.error_message,
                [Right("Describe", "group", group), Right("Describe", "topic", "*")],
            )
            for one in answer.groups
        ],
    )
    found = answer.groups[0]
    return GroupDescription(
        group=found.group_id,
        state=found.group_state,
        coordinator=node,
        coordinator_address=router.address_of(node),
        epoch=found.group_epoch,
        assignment_epoch=found.assignment_epoch,
        assignor=found.assignor_name,
        members=tuple(_member(one) for one in sorted(found.members, key=lambda one: one.member_id)),
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
        host=row.client_host,
        rack=row.rack_id,
        epoch=row.member_epoch,
        topics=tuple(sorted(row.subscribed_topic_names)),
        assignment=tuple(sorted(assigned)),
    )


async def delete_group(router: Router, group: str) -> None:
    """Not retried if the response is lost: the second request would be answered with GROUP_ID_NOT_FOUND."""
    await router.ask_coordinator(
        group,
        DeleteGroupsRequest(groups_names=[group]),
        lambda answer: [
            response_error(
                one.error_code, f"group {group}", one.error_message, [Right("Delete", "group", group)]
            )
            for one in answer.results
        ],
        is_repeatable=False,
    )

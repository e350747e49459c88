"""Which of many things is due."""

from __future__ import annotations

from random import Random

from kshare.producer.schedule import Schedule


def test_things_stay_due_until_they_get_another_time() -> None:
    schedule: Schedule[str] = Schedule()
    schedule.set("a", 2)
    schedule.set("b", 1)
    assert (schedule.next_at, schedule.due(0), schedule.due(1), schedule.due(5)) == (1, [], ["b"], ["b", "a"])
    schedule.set("b", 9)
    schedule.set("a", 2)
    assert (schedule.next_at, schedule.due(5)) == (2, ["a"])
    schedule.remove("a")
    assert (schedule.next_at, schedule.due(5), schedule.due(9)) == (9, [], ["b"])
    schedule.remove("b")
    schedule.remove("unknown")
    assert schedule.next_at == float("inf")


def test_it_agrees_with_a_plain_table_and_stays_small() -> None:
    random, schedule, table = Random(1), Schedule[int](), dict[int, float]()
    for _ in range(5000):
        thing, at, now = random.randrange(30), random.randrange(100), random.randrange(100)
        if at % 5:
            schedule.set(thing, at)
            table[thing] = at
        else:
            schedule.remove(thing)
            table.pop(thing, None)
        assert schedule.next_at == min(table.values(), default=float("inf"))
        due = schedule.due(now)
        assert sorted(due) == sorted(thing for thing, at in table.items() if at <= now)
        assert [table[thing] for thing in due] == sorted(table[thing] for thing in due)
    assert schedule.entry_count < 200

"""What a worker does with a record, as rules: before its handler is called, afterwards, and when the worker ends. Pure.

A rule is a row of a table: facts about a record → a decision. Tables are in `tables`; each policy has a file with its
options and its rows. Whoever wants a decision describes the situation as `Facts`, and carries out what the first row
that applies has decided (`settle/executor`).
"""

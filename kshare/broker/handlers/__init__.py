"""One file an API. Each has `async def handle(request, call)`, which gives the answer, or None for no answer.

Its docstring is the changelog of that API: a line a version, with the fields that came and went.
"""

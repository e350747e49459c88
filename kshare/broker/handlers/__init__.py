"""One file per API. Each has `async def handle(request, call)`, which returns the response, or None for no response.

Its docstring is the changelog of that API: one line per version, with the fields that were added and removed.
"""

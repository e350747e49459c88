"""One file an API. Each has `async def handle(request, call)`, which gives the answer, or None for no answer."""

# The C body of uncollected.py, inlined into compiled callers.


cdef inline bytes kept(memoryview view):
    return <bytes> view

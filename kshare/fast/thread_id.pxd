# The C body of thread_id.py, inlined into compiled callers.

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()


cdef inline unsigned long thread_id():
    return PyThread_get_thread_ident()

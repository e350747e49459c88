# C types for awaiting.py.

cimport cython
cimport kshare.fast.current_task as current_task
from kshare.fast.left_loops cimport Loop

cdef bint _is_on


cdef class RecordIterator(Loop):
    cdef NextRecord _spare

    cpdef object take(self, object task)

    cdef finish(self, NextRecord one)


@cython.final
cdef class NextRecord:
    cdef RecordIterator records
    cdef object _waiting, task
    # For await_slots.pxd: the StopIteration that is raised again for each record.
    cdef object stop

    @cython.locals(records=RecordIterator)
    cdef object take(self)

    cdef waiting(self)

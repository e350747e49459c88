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
    # A StopIteration to be raised again and again: await_slots.pxd's.
    cdef object stop

    @cython.locals(records=RecordIterator)
    cdef object take(self)

    cdef waiting(self)

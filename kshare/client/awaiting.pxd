# C types for awaiting.py.

cimport cython
cimport kshare.client.current as current
from kshare.client.record cimport ShareRecord


cdef class Records:
    cdef NextRecord _spare

    cpdef ShareRecord take(self, object task)

    cdef finish(self, NextRecord one)


@cython.final
cdef class NextRecord:
    cdef Records records
    cdef object _waiting, task
    # A StopIteration to be raised again and again: shortcut.pxd's.
    cdef object stop

    @cython.locals(record=ShareRecord, records=Records)
    cdef ShareRecord take(self)

    cdef waiting(self)

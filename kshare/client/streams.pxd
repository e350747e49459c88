# C types for streams.py. A coroutine keeps its variables in an object of its own: they can't have C types from here.

cimport cython
cimport kshare.client.shortcut as shortcut
from kshare.client.awaiting cimport NextRecord, Records
from kshare.client.record cimport Handles, ShareBatch, ShareRecord


@cython.final
cdef class Shelf:
    cdef list _opened, _left

    @cython.locals(handles=Handles)
    cpdef ShareRecord next_held(self)


@cython.final
cdef class BatchStream:
    cdef object _source
    cdef bint _is_implicit
    cdef Shelf _shelf
    cdef ShareBatch _in_hand


cdef class RecordStream(Records):
    cdef object _source
    cdef bint _is_implicit
    cdef ShareRecord _in_hand
    cdef Shelf _shelf
    cdef Py_ssize_t _left

    cpdef ShareRecord take(self)

    @cython.locals(record=ShareRecord)
    cdef _put_down(self)

# C types for streams.py. A coroutine keeps its variables in an object of its own: they can't have C types from here.

cimport cython
cimport kshare.fast.coarse_clock as coarse_clock
cimport kshare.fast.current_task as current_task
cimport kshare.fast.await_slots as await_slots
from kshare.fast.awaiting cimport NextRecord, Records
from kshare.fast.left_loops cimport Loop
from kshare.client.record cimport Handles, ShareBatch, ShareRecord


@cython.final
cdef class Shelf:
    cdef list _opened, _left, _unattended
    cdef object _offer
    cdef Py_ssize_t _loops

    @cython.locals(handles=Handles)
    cpdef ShareRecord next_held(self)

    cpdef give_back(self)


@cython.final
cdef class BatchStream(Loop):
    cdef object _source, _task
    cdef bint _is_implicit, _is_asked
    cdef Shelf _shelf
    cdef ShareBatch _in_hand


cdef class RecordStream(Records):
    cdef object _source, _task
    cdef bint _is_implicit, _is_asked
    cdef ShareRecord _in_hand
    cdef Shelf _shelf
    cdef Py_ssize_t _left
    cdef long long _until

    cpdef object take(self, object task)

    @cython.locals(record=ShareRecord)
    cdef _put_down(self, object task)

    @cython.locals(lost=list)
    cdef _on_settled_before(self, ShareRecord record)

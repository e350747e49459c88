# C types for loops.py.

cimport cython
cimport kshare.fast.thread_id as thread_id
from kshare.client.record cimport BatchIterator, ShareRecord
from kshare.fast.left_loops cimport Loop
from kshare.sync.settlements cimport Settlements


@cython.final
cdef class OpenedBatch:
    cdef public Settlements decisions
    cdef BatchIterator walk
    cdef Py_ssize_t slice_left
    cdef object _source, _unfinished, _iterating, _record_loops, _lock


cdef class BlockingLoop(Loop):
    cdef object _current, _token
    cdef bint _is_implicit, _is_asking, _is_on, _is_closed
    cdef OpenedBatch _opened
    cdef unsigned long _thread

    cdef bint _takes_records(self) except -1

    cdef _accept_current(self)

    cdef _take(self)


cdef class RecordLoop(BlockingLoop):
    cdef bint _takes_records(self) except -1

    @cython.locals(record=ShareRecord)
    cdef _accept_current(self)

    @cython.locals(opened=OpenedBatch, walk=BatchIterator, record=ShareRecord)
    cdef _take(self)


cdef class BatchLoop(BlockingLoop):
    cdef bint _takes_records(self) except -1

    cdef _accept_current(self)

    cdef _take(self)

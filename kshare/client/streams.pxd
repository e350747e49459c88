# C types for streams.py. Variables of coroutines can't have C types: they are kept in a separate object.

cimport cython
cimport kshare.fast.coarse_clock as coarse_clock
cimport kshare.fast.current_task as current_task
cimport kshare.fast.await_slots as await_slots
from kshare.fast.awaiting cimport NextRecord, RecordIterator
from kshare.fast.left_loops cimport Loop
from kshare.client.record cimport BatchIterator, ShareBatch, ShareRecord
from kshare.state.lease cimport Lease
from libc.stdint cimport int64_t

cdef int _accept


@cython.final
cdef class Inbox:
    cdef list _opened, _left, _unattended, _dropped
    cdef object _on_available, _parked, _unprepared
    cdef public object walk
    cdef Py_ssize_t _loops
    cdef bint _is_attended

    @cython.locals(iterator=BatchIterator)
    cpdef ShareRecord next_held(self)

    cpdef give_back(self)


@cython.final
cdef class BatchStream(Loop):
    cdef object _source, _task
    cdef bint _is_implicit, _is_waiting
    cdef Inbox _inbox
    cdef ShareBatch _current


cdef class RecordStream(RecordIterator):
    cdef object _source, _task
    cdef bint _is_implicit, _is_waiting
    cdef ShareRecord _current
    cdef Inbox _inbox
    cdef Py_ssize_t _left
    cdef long long _until

    cpdef object take(self, object task)

    @cython.locals(record=ShareRecord, lease=Lease, offset=int64_t)
    cdef _accept_current(self, object task)

    @cython.locals(lost=list)
    cdef _on_settled_before(self, ShareRecord record)

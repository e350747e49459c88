# C types for record.py.

cimport cython
cimport kshare.fast.recycling as recycling
cimport kshare.fast.shown_names as shown_names
cimport kshare.fast.thread_id as thread_id
from kshare.protocol.record cimport Record, RecordWalk
from kshare.state.lease cimport Lease
from libc.stdint cimport int64_t

cdef int _accept


cdef class ShareRecord(Record):
    cdef public ShareBatch batch


@cython.final
cdef class ShareBatch:
    cdef readonly object topic
    cdef readonly Lease _lease
    cdef readonly list _batches, _spans
    cdef readonly object _reader
    cdef bint _is_part, _can_renew
    cdef list _accepted
    cdef object _settlement_queue
    cdef unsigned long _thread

    @cython.locals(is_settled=bint)
    cpdef _settle(self, int64_t offset, int kind)

    cdef _require_its_thread(self)

    cdef _note_accepted(self, int kind)


cpdef Lease lease_of(ShareBatch batch)

cpdef list spans_of(ShareBatch batch)

cpdef list lost_spans_of(ShareBatch batch, int64_t first, int64_t last)

cpdef settle_held(ShareBatch batch, int kind)

cpdef decide_held(ShareBatch batch, int kind)

cpdef settle_through(ShareBatch batch, object settlement_queue)

cpdef BatchIterator undeserialized(ShareBatch batch)

cpdef object reader_of(ShareBatch batch)

cpdef read_through(ShareBatch batch, object reader)

cpdef settle_in(ShareBatch batch, unsigned long thread)


@cython.final
cdef class BatchIterator:
    cdef ShareBatch _batch
    cdef Lease _lease
    cdef object _reader, _kind
    cdef Py_ssize_t _next_batch
    cdef int64_t _reached
    cdef RecordWalk _walk
    cdef ShareRecord _given, _before

    @cython.locals(record=ShareRecord, walk=RecordWalk)
    cpdef ShareRecord next_held(self)

    cdef bint _was_accepted(self, int64_t offset) except -1

    @cython.locals(record=ShareRecord)
    cdef ShareRecord _blank(self)

    cdef RecordWalk _open_next(self)

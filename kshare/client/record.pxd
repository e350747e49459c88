# C types for record.py.

cimport cython
cimport kshare.fast.recycling as recycling
from kshare.protocol.record cimport Record, RecordWalk
from kshare.state.lease cimport Lease
from libc.stdint cimport int64_t


cdef class ShareRecord(Record):
    cdef public ShareBatch batch


@cython.final
cdef class ShareBatch:
    cdef readonly object topic
    cdef readonly Lease lease
    cdef readonly list batches, spans
    cdef bint _is_part
    cdef readonly object reader
    cdef public object desk
    cdef public bint can_renew

    cpdef settle(self, int64_t offset, int kind)


@cython.final
cdef class Handles:
    cdef ShareBatch _batch
    cdef Lease _lease
    cdef object _reader, _kind
    cdef Py_ssize_t _next_batch
    cdef int64_t _reached
    cdef RecordWalk _walk
    cdef ShareRecord _given, _before

    @cython.locals(record=ShareRecord, walk=RecordWalk)
    cpdef ShareRecord next_held(self)

    @cython.locals(record=ShareRecord)
    cdef ShareRecord _blank(self)

    cdef RecordWalk _open_next(self)

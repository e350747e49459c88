# The C bodies of byte_runs.py, inlined into compiled callers.

from cpython.bytearray cimport PyByteArray_AS_STRING


cdef inline Py_ssize_t count_between(
    bytearray buffer, Py_ssize_t start, Py_ssize_t stop, unsigned char low, unsigned char high
) noexcept:
    cdef const unsigned char* data = <const unsigned char*> PyByteArray_AS_STRING(buffer)
    cdef Py_ssize_t count = 0
    while start < stop:
        count += _count_few(data + start, min(stop - start, 255), low, high)
        start += 255
    return count


cdef inline list runs_between(
    bytearray buffer, Py_ssize_t start, Py_ssize_t stop, unsigned char low, unsigned char high
):
    cdef const unsigned char* data = <const unsigned char*> PyByteArray_AS_STRING(buffer)
    cdef list runs = []
    cdef Py_ssize_t end
    while True:
        start = _reach(data, start, stop, low, high, False)
        if start >= stop:
            return runs
        end = _reach(data, start, stop, low, high, True)
        runs.append((start, end))
        start = end


cdef inline Py_ssize_t _reach(
    const unsigned char* data, Py_ssize_t start, Py_ssize_t stop, unsigned char low, unsigned char high, bint inside
) noexcept nogil:
    # The end of the bytes from `start` on that are in the range (`inside`), or that aren't.
    while stop - start >= 128 and _count_few(data + start, 128, low, high) == (128 if inside else 0):
        start += 128
    while start < stop and (<unsigned char> (data[start] - low) <= <unsigned char> (high - low)) == inside:
        start += 1
    return start


cdef inline unsigned char _count_few(
    const unsigned char* data, Py_ssize_t size, unsigned char low, unsigned char high
) noexcept nogil:
    # At most 255 bytes, so that a byte can count them: then compilers process sixteen at a time.
    cdef unsigned char width = high - low
    cdef unsigned char count = 0
    cdef Py_ssize_t index
    for index in range(size):
        count += <unsigned char> (data[index] - low) <= width
    return count

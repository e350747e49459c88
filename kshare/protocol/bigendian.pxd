# What cython puts in place of bigendian.py's functions wherever a compiled module calls them.

cdef inline signed char int8(const unsigned char[::1] buf, Py_ssize_t pos):
    return <signed char> buf[pos]

cdef inline short int16(const unsigned char[::1] buf, Py_ssize_t pos):
    return <short> ((buf[pos] << 8) | buf[pos + 1])

cdef inline int int32(const unsigned char[::1] buf, Py_ssize_t pos):
    cdef unsigned int value = 0
    cdef int i
    for i in range(4):
        value = (value << 8) | buf[pos + i]
    return <int> value

cdef inline long long int64(const unsigned char[::1] buf, Py_ssize_t pos):
    cdef unsigned long long value = 0
    cdef int i
    for i in range(8):
        value = (value << 8) | buf[pos + i]
    return <long long> value

cdef inline int put_int8(unsigned char[::1] buf, Py_ssize_t pos, signed char value) except -1:
    buf[pos] = <unsigned char> value
    return 0

cdef inline int put_int16(unsigned char[::1] buf, Py_ssize_t pos, short value) except -1:
    buf[pos] = <unsigned char> (value >> 8)
    buf[pos + 1] = <unsigned char> value
    return 0

cdef inline int put_int32(unsigned char[::1] buf, Py_ssize_t pos, int value) except -1:
    cdef int i
    for i in range(4):
        buf[pos + i] = <unsigned char> (value >> (24 - 8 * i))
    return 0

cdef inline int put_int64(unsigned char[::1] buf, Py_ssize_t pos, long long value) except -1:
    cdef int i
    for i in range(8):
        buf[pos + i] = <unsigned char> (value >> (56 - 8 * i))
    return 0

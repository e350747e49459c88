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

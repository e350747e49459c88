# The C body of thread_id.py, inlined into compiled callers. Python's own function calls this one.

cdef extern from *:
    """
    #ifdef _WIN32
    #define kshare_thread_id() PyThread_get_thread_ident()
    #else
    #include <pthread.h>
    #define kshare_thread_id() ((unsigned long) pthread_self())
    #endif
    """
    unsigned long kshare_thread_id() noexcept


cdef inline unsigned long thread_id() noexcept:
    return kshare_thread_id()

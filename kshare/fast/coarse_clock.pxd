# The C body of coarse_clock.py, inlined into compiled callers.

cdef extern from *:
    """
    #ifdef _WIN32
    #include <windows.h>
    static long long kshare_coarse_ms(void) {
        return (long long) GetTickCount64();
    }
    #else
    #include <time.h>
    #ifdef CLOCK_MONOTONIC_COARSE
    #define KSHARE_CLOCK CLOCK_MONOTONIC_COARSE
    #else
    #define KSHARE_CLOCK CLOCK_MONOTONIC
    #endif
    static long long kshare_coarse_ms(void) {
        struct timespec now;
        clock_gettime(KSHARE_CLOCK, &now);
        return (long long) now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    #endif
    """
    long long kshare_coarse_ms()


cdef inline long long coarse_ms():
    return kshare_coarse_ms()

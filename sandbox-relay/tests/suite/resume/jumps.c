// Moves the clock of a program that is started with this library in LD_PRELOAD: the file that JUMPS_FILE names holds a
// number of seconds, which is added to the real time. All other clocks, such as the monotonic one, stay as they are.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *time) {
    int failed = (int)syscall(SYS_clock_gettime, clock, time);
    const char *path = getenv("JUMPS_FILE");
    if (failed || clock != CLOCK_REALTIME || !path) {
        return failed;
    }
    FILE *file = fopen(path, "re");
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) != 1) {
            abort();
        }
        fclose(file);
    }
    time->tv_sec += seconds;
    return 0;
}

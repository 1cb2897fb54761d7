/* Two processes that meet at a UNIX socket, and tell each other what their QPs need. */
#ifndef MEET_H
#define MEET_H

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

struct wire {
    uint32_t qpn, rkey, psn;
    uint64_t address;
    union ibv_gid gid;
};

static inline int meet(int server, const char *path) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof at.sun_path);
    strcpy(at.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    if (server) {
        CHECK(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0);
        int other = accept(fd, NULL, NULL);
        CHECK(other >= 0 && close(fd) == 0);
        return other;
    }
    double end = seconds() + 20;
    while (connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        CHECK(seconds() < end);
        usleep(20000);
    }
    return fd;
}

static inline void tell(int fd, const void *what, size_t length) { CHECK(write(fd, what, length) == (ssize_t)length); }

static inline void hear(int fd, void *what, size_t length) { CHECK(recv(fd, what, length, MSG_WAITALL) == (ssize_t)length); }

static inline unsigned char pattern(size_t at, size_t size) { return (unsigned char)(at ^ (at >> 8) ^ size); }

/* The meeting number `n` at a path. */
static inline int meet_at(int server, const char *path, int n) {
    char at[128];
    CHECK(snprintf(at, sizeof at, "%s%d", path, n) < (int)sizeof at);
    return meet(server, at);
}

#endif

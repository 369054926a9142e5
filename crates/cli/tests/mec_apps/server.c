// An app: answers each connection on port 80 with its name; asked for /N, with N bytes, and for /calls, with what became
// of calls that would make a namespace of users.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static void end(int signal) {
    (void)signal;
    _exit(0);
}

// A call that begins a process ends that at once.
static int error_of(long done) {
    if (done == 0)
        _exit(0);
    return done < 0 ? errno : 0;
}

static void try_calls(char *said, size_t bytes) {
    long clone_error = error_of(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
    unsigned long long arguments[8] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
    long clone3_error = error_of(syscall(SYS_clone3, arguments, sizeof arguments));
    // In this process: it comes last.
    long unshare_error = unshare(CLONE_NEWUSER) ? errno : 0;
    snprintf(said, bytes, "clone %ld clone3 %ld unshare %ld", clone_error, clone3_error, unshare_error);
}

// Answers one connection.
static void answer(int client) {
    const char *name = getenv("MEC_APP_INSTANCE_ID");
    const char *head = "HTTP/1.1 200 OK\r\nContent-Length: 32\r\nConnection: close\r\n\r\n";
    const char *long_head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    char request[2048] = {0};
    static char bytes[65536];
    if (read(client, request, sizeof request - 1) > 0) {
        long left = strncmp(request, "GET /", 5) ? 0 : atol(request + 5);
        if (!strncmp(request, "GET /calls ", 11)) {
            char said[128];
            try_calls(said, sizeof said);
            (void)!write(client, long_head, strlen(long_head));
            (void)!write(client, said, strlen(said));
        } else if (left > 0)
            (void)!write(client, long_head, strlen(long_head));
        else if (write(client, head, strlen(head)) > 0 && name)
            (void)!write(client, name, strlen(name));
        while (left > 0) {
            ssize_t sent = write(client, bytes, left < (long)sizeof bytes ? left : (long)sizeof bytes);
            if (sent <= 0)
                break;
            left -= sent;
        }
    }
    shutdown(client, SHUT_WR);
    while (read(client, request, sizeof request) > 0) {
    }
}

int main(void) {
    // The first process of a container has no handlers but its own.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, end);
    signal(SIGCHLD, SIG_IGN);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(80)};
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 16))
        return 1;
    for (;;) {
        int client = accept(listener, 0, 0);
        if (client < 0)
            continue;
        // A client that is gone without a word keeps nobody waiting.
        if (fork() == 0) {
            close(listener);
            answer(client);
            _exit(0);
        }
        close(client);
    }
}

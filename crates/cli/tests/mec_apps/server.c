// An app: answers each connection on port 80 with its name; asked for /N, with N bytes.
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void end(int signal) {
    (void)signal;
    _exit(0);
}

int main(void) {
    // The first process of a container has no handlers but its own.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, end);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(80)};
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 16))
        return 1;
    const char *name = getenv("MEC_APP_INSTANCE_ID");
    const char *head = "HTTP/1.1 200 OK\r\nContent-Length: 32\r\nConnection: close\r\n\r\n";
    const char *long_head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
    char request[2048] = {0};
    static char bytes[65536];
    for (;;) {
        int client = accept(listener, 0, 0);
        if (client < 0)
            continue;
        if (read(client, request, sizeof request - 1) > 0) {
            long left = strncmp(request, "GET /", 5) ? 0 : atol(request + 5);
            if (left > 0)
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
        close(client);
    }
}

// An app: answers each connection on port 80 with its name.
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
    signal(SIGTERM, end);
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(80)};
    if (bind(listener, (struct sockaddr *)&any, sizeof any) || listen(listener, 16))
        return 1;
    const char *name = getenv("MEC_APP_INSTANCE_ID");
    const char *head = "HTTP/1.1 200 OK\r\nContent-Length: 32\r\nConnection: close\r\n\r\n";
    char request[2048];
    for (;;) {
        int client = accept(listener, 0, 0);
        if (client < 0)
            continue;
        if (read(client, request, sizeof request) > 0 && write(client, head, strlen(head)) > 0 && name)
            (void)!write(client, name, strlen(name));
        shutdown(client, SHUT_WR);
        while (read(client, request, sizeof request) > 0) {
        }
        close(client);
    }
}

#define _GNU_SOURCE
#include "tls_front.h"

#include "check.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#define FUNCTIONS(X)                                                                                                   \
    X(const void *, TLS_server_method, (void))                                                                         \
    X(void *, SSL_CTX_new, (const void *))                                                                             \
    X(void, SSL_CTX_free, (void *))                                                                                    \
    X(int, SSL_CTX_use_certificate_chain_file, (void *, const char *))                                                 \
    X(int, SSL_CTX_use_PrivateKey_file, (void *, const char *, int))                                                   \
    X(void *, SSL_new, (void *))                                                                                       \
    X(void, SSL_free, (void *))                                                                                        \
    X(int, SSL_set_fd, (void *, int))                                                                                  \
    X(int, SSL_accept, (void *))                                                                                       \
    X(int, SSL_read, (void *, void *, int))                                                                            \
    X(int, SSL_write, (void *, const void *, int))                                                                     \
    X(int, SSL_pending, (const void *))                                                                                \
    X(void, ERR_clear_error, (void))

#define VARIABLE(answer, name, parameters) static answer(*name) parameters;
FUNCTIONS(VARIABLE)

static struct {
    char folder[32], certificate[48], key[48];
    void *context;
    uint16_t behind;
    int listener;
    pthread_t thread;
    atomic_uint connections;
    atomic_int ending;
} front;

static int load(void)
{
    void *library = dlopen("libssl.so.3", RTLD_NOW);

    if (!library)
        library = dlopen("libssl.so.1.1", RTLD_NOW);
    if (!library)
        return -1;
#define LOAD(answer, name, parameters)                                                                                 \
    *(void **)&name = dlsym(library, #name);                                                                           \
    if (!name)                                                                                                         \
        return -1;
    FUNCTIONS(LOAD)
    return 0;
}

static int make_certificate(void)
{
    char command[400];

    strcpy(front.folder, "/tmp/seneca-test-XXXXXX");
    CHECK(mkdtemp(front.folder) != NULL);
    snprintf(front.certificate, sizeof front.certificate, "%s/crt", front.folder);
    snprintf(front.key, sizeof front.key, "%s/key", front.folder);
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=front "
             "-addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s 2>/dev/null",
             front.key, front.certificate);
    return system(command) == 0 ? 0 : -1;
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
}

static int send_all(int fd, const char *bytes, int n)
{
    for (int at = 0; at < n;) {
        ssize_t sent = send(fd, bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (sent <= 0)
            return -1;
        at += (int)sent;
    }
    return 0;
}

/* Pass bytes on until one side has gone. */
static void pass_on(void *ssl, int client, int server)
{
    char bytes[8192];

    for (;;) {
        struct pollfd both[2] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        int is_pending = SSL_pending(ssl) > 0;
        if (poll(both, 2, is_pending ? 0 : -1) < 0)
            return;
        if (is_pending || both[0].revents) {
            int n = SSL_read(ssl, bytes, sizeof bytes);
            if (n <= 0 || send_all(server, bytes, n) != 0)
                return;
        }
        if (both[1].revents) {
            ssize_t n = recv(server, bytes, sizeof bytes, 0);
            if (n <= 0 || SSL_write(ssl, bytes, (int)n) <= 0)
                return;
        }
    }
}

static void *serve(void *argument)
{
    int client = (int)(intptr_t)argument, server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(front.behind);
    void *ssl = SSL_new(front.context);
    sigset_t pipes;
    int yes = 1;

    /* SSL_write() raises it here. The client under test has to do without. */
    sigemptyset(&pipes);
    sigaddset(&pipes, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipes, NULL);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    CHECK(ssl && server >= 0 && SSL_set_fd(ssl, client) == 1);
    if (SSL_accept(ssl) == 1 && connect(server, (struct sockaddr *)&address, sizeof address) == 0)
        pass_on(ssl, client, server);
    ERR_clear_error();
    SSL_free(ssl);
    close(server);
    close(client);
    atomic_fetch_sub(&front.connections, 1);
    return NULL;
}

static void *listens(void *argument)
{
    (void)argument;
    for (;;) {
        int fd = accept(front.listener, NULL, NULL);
        if (fd < 0 || atomic_load(&front.ending)) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        pthread_t thread;
        atomic_fetch_add(&front.connections, 1);
        CHECK(pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0);
        pthread_detach(thread);
    }
}

uint16_t tls_front_start(uint16_t behind, sn_tls_settings *settings)
{
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof address;

    if (load() != 0 || make_certificate() != 0)
        return 0;
    front.behind = behind;
    front.context = SSL_CTX_new(TLS_server_method());
    CHECK(front.context && SSL_CTX_use_certificate_chain_file(front.context, front.certificate) == 1 &&
          SSL_CTX_use_PrivateKey_file(front.context, front.key, 1) == 1);
    front.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(front.listener >= 0 && bind(front.listener, (struct sockaddr *)&address, sizeof address) == 0 &&
          listen(front.listener, 64) == 0 && getsockname(front.listener, (struct sockaddr *)&address, &length) == 0);
    CHECK(pthread_create(&front.thread, NULL, listens, NULL) == 0);
    *settings = (sn_tls_settings){.host = "127.0.0.1", .ca_file = front.certificate};
    return ntohs(address.sin_port);
}

void tls_front_end(void)
{
    if (front.thread) {
        atomic_store(&front.ending, 1);
        shutdown(front.listener, SHUT_RDWR);
        pthread_join(front.thread, NULL);
        while (atomic_load(&front.connections))
            usleep(1000);
        close(front.listener);
        SSL_CTX_free(front.context);
    }
    unlink(front.certificate);
    unlink(front.key);
    rmdir(front.folder);
}

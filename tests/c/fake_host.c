#define _GNU_SOURCE
#include "fake_host.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>

#include "check.h"

#define MOST_WORDS 6

fake_host host;

static int read_line(FILE *in, char *line, size_t size)
{
    return fgets(line, (int)size, in) ? 0 : -1;
}

/* The words of a command; -1: the client has gone. */
static int read_command(FILE *in, char **words, size_t *lengths)
{
    char line[64];
    if (read_line(in, line, sizeof line) != 0)
        return -1;
    int n = atoi(line + 1);
    CHECK(line[0] == '*' && n >= 1 && n <= MOST_WORDS);
    for (int i = 0; i < n; i++) {
        if (read_line(in, line, sizeof line) != 0)
            return -1;
        CHECK(line[0] == '$');
        lengths[i] = (size_t)atol(line + 1);
        CHECK(lengths[i] <= HOST_MOST_BYTES + 64);
        words[i] = malloc(lengths[i] + 3);
        CHECK(words[i] != NULL);
        if (fread(words[i], 1, lengths[i] + 2, in) != lengths[i] + 2)
            return -1;
        words[i][lengths[i]] = '\0';
    }
    return n;
}

static enum lie choose_lie(void)
{
    unsigned may = atomic_load(&host.lies);
    if (!may || sn_rng_below(&host.rng, 3))
        return TRUTH;
    enum lie lie = (enum lie)sn_rng_below(&host.rng, LIES);
    return may >> lie & 1 ? lie : TRUTH;
}

/* The number of a name, in hexadecimal digits. The mutex is held. */
static uint32_t number_of(const char *name, size_t length)
{
    uint32_t i = 0;

    CHECK(length < sizeof host.names[0]);
    while (i < HOST_NAMES && host.names[i][0] && strncmp(host.names[i], name, length) != 0)
        i++;
    CHECK(i < HOST_NAMES);
    memcpy(host.names[i], name, length);
    return i;
}

/* What a key, "seneca:name:sample", is of. The mutex is held. */
static void find_key(const char *key, uint32_t *name, uint32_t *sample)
{
    const char *begin = strchr(key, ':') + 1, *end = strchr(begin, ':');
    uint64_t number = strtoull(end + 1, NULL, 10);

    *name = number_of(begin, (size_t)(end - begin));
    CHECK(number < HOST_SAMPLES || number == UINT32_MAX);
    *sample = number < HOST_SAMPLES ? (uint32_t)number : HOST_SAMPLES;
}

/* Answer a GET; 0: the connection goes on. */
static int answer_get(int fd, const char *key)
{
    uint32_t name, sample;

    pthread_mutex_lock(&host.mutex);
    find_key(key, &name, &sample);
    enum lie lie = choose_lie();
    uint32_t which = lie == OTHERS ? (sample + 1) % HOST_SAMPLES : sample;
    size_t length = host.values[name][which] ? host.lengths[name][which] : 0;
    uint8_t *value = malloc(length + 64);
    CHECK(value != NULL);
    size_t length_sent = lie == SHORTER && length > 40 ? length - 1 : length;
    int head = length ? sprintf((char *)value, "$%zu\r\n", length_sent) : sprintf((char *)value, "$-1\r\n");
    if (length) {
        memcpy(value + head, host.values[name][which], length_sent);
        if (lie == FLIPPED)
            value[(uint32_t)head + sn_rng_below(&host.rng, (uint32_t)length)] ^=
                (uint8_t)(1u << sn_rng_below(&host.rng, 8));
        memcpy(value + head + length_sent, "\r\n", 2);
        length_sent += 2;
    }
    atomic_fetch_add(&host.lies_used[lie], 1);
    uint32_t part = sn_rng_below(&host.rng, (uint32_t)(length_sent + 3)) + 1;
    pthread_mutex_unlock(&host.mutex);

    size_t all = (size_t)head + length_sent;
    int goes_on = 0;
    struct timespec long_pause = {.tv_nsec = 130000000};
    if (lie == RUBBISH) {
        goes_on = send(fd, "HTTP/1.1 400 Bad Request\r\nServer: none\r\n\r\n", 42, MSG_NOSIGNAL) == 42 ? 0 : -1;
    } else if (lie == HUGE_LENGTH) {
        goes_on = send(fd, "$4000000000\r\n", 13, MSG_NOSIGNAL) == 13 ? 0 : -1;
    } else if (lie == ERROR) {
        goes_on = send(fd, "-LOADING the dataset\r\n", 22, MSG_NOSIGNAL) == 22 ? 0 : -1;
    } else if (lie == CLOSES) {
        goes_on = -1;
    } else if (lie == SILENT) {
        nanosleep(&long_pause, NULL);
        goes_on = -1;
    } else {
        size_t sent = lie == HALF && part < all ? part : all;
        goes_on = send(fd, value, sent, MSG_NOSIGNAL) == (ssize_t)sent && sent == all ? 0 : -1;
    }
    free(value);
    return goes_on;
}

/* Do a DEL or a SET. The value that is kept is taken out of `words`. */
static const char *change(char **words, size_t *lengths, int n)
{
    const char *answer = ":1\r\n";
    uint32_t name, sample;

    pthread_mutex_lock(&host.mutex);
    find_key(words[1], &name, &sample);
    uint8_t **value = &host.values[name][sample];
    if (strcmp(words[0], "DEL") == 0) {
        free(*value);
        *value = NULL;
    } else {
        int may_replace = n == 3 || strcmp(words[3], "NX") != 0, at = may_replace ? 3 : 4;
        CHECK(strcmp(words[0], "SET") == 0 && (n == at || (n == at + 2 && strcmp(words[at], "PX") == 0)));
        CHECK(n == at || atol(words[at + 1]) > 0);
        answer = *value && !may_replace ? "$-1\r\n" : "+OK\r\n";
        if (!*value || may_replace) {
            free(*value);
            *value = (uint8_t *)words[2];
            host.lengths[name][sample] = lengths[2];
            words[2] = NULL;
        }
    }
    pthread_mutex_unlock(&host.mutex);
    return answer;
}

/* One end of a connection takes the place of another: 0 is none. */
static void note_connection(int from, int to)
{
    uint32_t i = 0;

    pthread_mutex_lock(&host.mutex);
    while (i < HOST_CONNECTIONS && host.connections[i] != from)
        i++;
    CHECK(i < HOST_CONNECTIONS);
    host.connections[i] = to;
    pthread_mutex_unlock(&host.mutex);
}

static void *serve(void *argument)
{
    int fd = (int)(intptr_t)argument, goes_on = 0;
    FILE *in = fdopen(dup(fd), "r");
    CHECK(in != NULL);
    note_connection(0, fd);
    if (atomic_load(&host.is_dead))
        goes_on = -1;

    while (goes_on == 0) {
        char *words[MOST_WORDS] = {NULL};
        size_t lengths[MOST_WORDS];
        int n = read_command(in, words, lengths);
        if (n < 0 || atomic_load(&host.is_dead)) {
            goes_on = -1;
        } else if (strcmp(words[0], "PING") == 0) {
            goes_on = send(fd, "+PONG\r\n", 7, MSG_NOSIGNAL) == 7 ? 0 : -1;
        } else if (strcmp(words[0], "GET") == 0) {
            goes_on = answer_get(fd, words[1]);
        } else {
            const char *answer = change(words, lengths, n);
            goes_on = send(fd, answer, strlen(answer), MSG_NOSIGNAL) > 0 ? 0 : -1;
        }
        for (int i = 0; i < MOST_WORDS; i++)
            free(words[i]);
    }
    fclose(in);
    note_connection(fd, 0);
    close(fd);
    atomic_fetch_sub(&host.threads, 1);
    return NULL;
}

static void *listens(void *argument)
{
    (void)argument;
    for (;;) {
        int fd = accept(host.listener, NULL, NULL);
        if (fd < 0 || atomic_load(&host.ending)) {
            if (fd >= 0)
                close(fd);
            return NULL;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* as a server does: it answers at once */
        pthread_t thread;
        if (atomic_load(&host.is_dead)) {
            close(fd);
            continue;
        }
        atomic_fetch_add(&host.threads, 1);
        CHECK(pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0);
        pthread_detach(thread);
    }
}

void fake_host_start(uint64_t seed)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;

    sn_rng_start(&host.rng, seed, 0, 1, 0, SN_STREAM_REST);
    pthread_mutex_init(&host.mutex, NULL);
    host.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(host.listener >= 0 && bind(host.listener, (struct sockaddr *)&address, sizeof address) == 0 &&
          listen(host.listener, 64) == 0 && getsockname(host.listener, (struct sockaddr *)&address, &length) == 0);
    host.port = ntohs(address.sin_port);
    CHECK(pthread_create(&host.listens, NULL, listens, NULL) == 0);
}

static void forget_values(void)
{
    for (uint32_t name = 0; name < HOST_NAMES; name++) {
        for (uint32_t i = 0; i <= HOST_SAMPLES; i++) {
            free(host.values[name][i]);
            host.values[name][i] = NULL;
        }
    }
}

void fake_host_die(void)
{
    pthread_mutex_lock(&host.mutex);
    atomic_store(&host.is_dead, 1);
    for (uint32_t i = 0; i < HOST_CONNECTIONS; i++)
        if (host.connections[i])
            shutdown(host.connections[i], SHUT_RDWR);
    pthread_mutex_unlock(&host.mutex);
}

void fake_host_come_back(void)
{
    while (atomic_load(&host.threads))
        usleep(1000);
    forget_values();
    atomic_store(&host.is_dead, 0);
}

uint32_t fake_host_count(const void *name)
{
    char digits[2 * 16 + 1];
    uint32_t n = 0;

    for (int i = 0; i < 16; i++)
        sprintf(digits + 2 * i, "%02x", ((const uint8_t *)name)[i]);
    pthread_mutex_lock(&host.mutex);
    uint32_t number = number_of(digits, strlen(digits));
    for (uint32_t i = 0; i < HOST_SAMPLES; i++)
        n += host.values[number][i] != NULL;
    pthread_mutex_unlock(&host.mutex);
    return n;
}

void fake_host_end(void)
{
    atomic_store(&host.ending, 1);
    shutdown(host.listener, SHUT_RDWR);
    pthread_join(host.listens, NULL);
    while (atomic_load(&host.threads))
        usleep(1000);
    close(host.listener);
    forget_values();
    pthread_mutex_destroy(&host.mutex);
}

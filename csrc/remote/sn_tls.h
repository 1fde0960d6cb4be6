/*
 * sn_tls.h -- TLS on a connected socket, by the OpenSSL that is installed.
 *
 *   dlopen(libssl) --> context: whom to trust --> handshake --> send, receive --> close
 *
 * OpenSSL is looked up when the first context is made, and nothing of it is needed to build. The server has to prove
 * that it is the host that was asked for: its certificate has that name, has not expired, and leads to a trusted CA.
 * No setting turns this off.
 *
 * Lives in   private memory. The addresses of OpenSSL's functions are in the context, because each module of _core has
 *            its own copy of this code.
 * Callers    a context: any number of threads, of which one makes it. A connection: one at a time.
 * Blocking   as sn_socket.h says, the handshake too. Making a context reads the files that it names.
 * Errors     -errno. -EPROTO: what the peer says is not TLS, or it was refused; a text says why. OpenSSL's own queue of
 *            errors is left empty.
 */
#ifndef SN_TLS_H
#define SN_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define SN_TLS_WHY 200 /* bytes of a text that says why something failed */

typedef struct {
    const char *host;      /* the name or numeric address that the server's certificate must have */
    const char *ca_file;   /* the CAs that are trusted, PEM; NULL: those that OpenSSL trusts on this machine */
    const char *cert_file; /* this client's own certificate, PEM; NULL: it has none */
    const char *key_file;  /* the key of that certificate; NULL: it is in the same file */
} sn_tls_settings;

typedef struct sn_tls_context sn_tls_context;
typedef struct sn_tls sn_tls;

/* The context that the connections to one server share. NULL: `why` says which file or library is missing. */
sn_tls_context *sn_tls_context_new(const sn_tls_settings *settings, char why[SN_TLS_WHY]);

/* The caller needs the context no more. Connections that were opened with it go on. */
void sn_tls_context_release(sn_tls_context *context);

/* Shake hands on a connected socket, which stays the caller's. 0, and then sn_tls_close() is owed; else `why` may say
 * more than the code. */
int sn_tls_open(sn_tls_context *context, int fd, uint64_t deadline, sn_tls **opened, char why[SN_TLS_WHY]);

/* As sn_socket_send() and sn_socket_receive(). */
int sn_tls_send(sn_tls *self, const struct iovec *parts, size_t n, uint64_t deadline);
ssize_t sn_tls_receive(sn_tls *self, void *to, size_t most, uint64_t deadline);

/* Why the last call failed with -EPROTO. */
const char *sn_tls_why(const sn_tls *self);

void sn_tls_close(sn_tls *self);

#endif

/*
 * tls_front.h -- TLS before a server that speaks without, as stunnel does it.
 *
 *   client ==TLS==> front --> server
 *
 * Needs      libssl and the command openssl, which makes a certificate for 127.0.0.1.
 * Lives in   threads of its own, one a connection, and a folder of its own in /tmp.
 */
#ifndef TLS_FRONT_H
#define TLS_FRONT_H

#include <stdint.h>

#include "remote/sn_tls.h"

/* Begin, before the server of this port. The front's port; 0: what it needs is not there. `settings` is for its clients. */
uint16_t tls_front_start(uint16_t behind, sn_tls_settings *settings);

/* End, once all clients are gone. */
void tls_front_end(void);

#endif

/* The numbers by which agents and clients learn what the other one understands. A change of the protocol or
 * the keys on the nodes counts the number up, gives the project another version (meson.build), and describes
 * the change in units/doc/CHANGELOG.md; tests/check/versions.py compares these places. */
#pragma once

enum {
    VERSION_PROTOCOL = 6, /* of the commands and replies on the socket (protocol.md) */
    VERSION_KEYS = 5,     /* of the keys on the nodes (protocol.md, section 6) */
};

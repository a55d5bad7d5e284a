/* Commands for the connection: those that Redis clients send first, PAGE and QUIT. */
#pragma once

struct call;

void connection_command_hello(const struct call *call);
void connection_command_client(const struct call *call);
void connection_command_ping(const struct call *call);
void connection_command_echo(const struct call *call);
void connection_command_select(const struct call *call);
void connection_command_auth(const struct call *call);
void connection_command_quit(const struct call *call);

/* Gives the session its shared page of deadlines. */
void connection_command_page(const struct call *call);

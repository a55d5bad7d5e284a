/* A terminal as a screen that is drawn anew: with plain ANSI sequences, on the terminal's second screen, so
 * that what was on the terminal before is there again afterwards. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

struct top_screen {
    volatile sig_atomic_t on;
    struct termios before;
};

/* Keys come one by one from now on, without echo. False: standard input and output are no terminal. */
bool top_screen_begin(struct top_screen *screen);

/* The terminal is as before. May be called in a signal handler. */
void top_screen_end(struct top_screen *screen);

/* Draws lines of UTF-8 text, as many as have room, each cut at the terminal's width as it is now. */
void top_screen_draw(const char *text, size_t length);

#include "top-screen.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "utf8.h"

enum { ROWS_USUAL = 24, COLUMNS_USUAL = 80 };

/* The second screen, a hidden cursor, and no line break at the right edge: wide characters may exceed it. */
static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
static const char leave[] = "\033[?7h\033[?25h\033[?1049l";

bool top_screen_begin(struct top_screen *screen) {
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &screen->before) < 0)
        return false;
    struct termios keys = screen->before;
    keys.c_lflag &= ~(tcflag_t) (ICANON | ECHO);
    keys.c_cc[VMIN] = 1;
    keys.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &keys) < 0)
        return false;
    screen->on = true;
    (void) fputs(enter, stdout);
    (void) fflush(stdout);
    return true;
}

void top_screen_end(struct top_screen *screen) {
    if (!screen->on)
        return;
    screen->on = false;
    (void) !write(STDOUT_FILENO, leave, sizeof(leave) - 1);
    (void) tcsetattr(STDIN_FILENO, TCSANOW, &screen->before);
}

/* The bytes of the line that have room. */
static size_t fitting(const char *line, size_t length, size_t columns) {
    size_t at = 0;

    for (size_t used = 0; at < length && used < columns; used++)
        at += utf8_sequence(line + at, length - at);
    return at;
}

/* Each line is cleared before its text: behind a text as wide as the terminal the cursor stands on the last
 * character. */
void top_screen_draw(const char *text, size_t length) {
    struct winsize size = {0};
    const char *end = text + length;
    size_t row = 0;

    (void) ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    size_t rows = size.ws_row > 0 ? size.ws_row : ROWS_USUAL;
    size_t columns = size.ws_col > 0 ? size.ws_col : COLUMNS_USUAL;
    (void) fputs("\033[H", stdout);
    for (; row < rows && text < end; row++) {
        const char *line_end = memchr(text, '\n', (size_t) (end - text));
        size_t line = (size_t) ((line_end ? line_end : end) - text);
        (void) fputs(row > 0 ? "\r\n\033[K" : "\033[K", stdout);
        (void) fwrite(text, 1, fitting(text, line, columns), stdout);
        text += line + (line_end != NULL);
    }
    if (row < rows)
        (void) fputs("\r\n\033[J", stdout);
    (void) fflush(stdout);
}

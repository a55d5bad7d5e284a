/* The syntax of a configuration file, as far as libconfuse does not check it: libconfuse expands "${NAME}",
 * ignores bytes that it can't use, accepts the end of the file as the end of a section or a string, counts a
 * line more for each comment, and has no calls after '='. */
#pragma once

#include <stddef.h>

/* Checks the text, which a NUL follows, and masks in place: comments are blank afterwards, and in values
 * and titles a byte of SYNTAX_DOLLAR is a '$', one of SYNTAX_STAR a '*'; a value that begins with bytes of
 * SYNTAX_CREDENTIAL is the name in credential("name"). Positions and lines stay as they are. NULL; or an
 * error, and its line. */
enum { SYNTAX_DOLLAR = '\1', SYNTAX_STAR = '\2', SYNTAX_CREDENTIAL = '\3' };
const char *syntax_mask(char *text, size_t length, unsigned *ret_line);

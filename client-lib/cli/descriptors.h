/* Inherited descriptors, in a process that outlives the command. */
#pragma once

/* Closes all descriptors above standard error that an executed program would inherit. Open descriptors of
 * the caller's, such as a pipe's end or a file with a flock(2), would live on in this process. */
void descriptors_close_inherited(void);

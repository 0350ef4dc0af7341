/* helper_folder: a folder for each test, since each has a process of its own. */
#ifndef HELPER_FOLDER_H
#define HELPER_FOLDER_H

void folder_enter(void); /* make it and go there, as a suite's `init` */
void folder_leave(void); /* leave it and remove it with all that it holds, as its `fini` */
const char *folder_path(void);

#endif

/* helper_folder: a folder for each test, since each test has its own process. */
#ifndef HELPER_FOLDER_H
#define HELPER_FOLDER_H

void folder_enter(void); /* creates the folder and enters it; a suite's `init` */
void folder_leave(void); /* leaves the folder and removes it with its contents; a suite's `fini` */
const char *folder_path(void);

#endif

/* A disk in memory that forgets what a real one may forget.
**
** It implements the table of csrc/os/fs.h, which the product uses. Every file and folder has two faces: what programs see (the page cache), and
** what a loss of power is sure to leave; between them lies a list of changes, in the order in which they were made, of which any part may have
** reached the medium. sync and sync_dir empty that list. One thread, one simulated machine: locks are always had.
*/
#ifndef SPEC_SIM_DISK_H
#define SPEC_SIM_DISK_H

#include "os/fs.h"

typedef struct sim_disk sim_disk;

/* What of the unsynced changes a loss of power may leave.
**   prefix    all changes up to some moment, nothing of what came later
**   ordered   folders and sizes up to some moment, as a journal has them; bytes that a size exposes are there, others by the sector
**   any       each change of a folder or size, each sector of each write, by itself; the last sector of a write may be torn
**   copying   each file as it was at some moment of its own, each change of a folder by itself: what copies on write, as Btrfs does
**   lying     as any; besides, the last sync, of a file or a folder, has saved nothing: no store can hold its promises on that
** What a size exposes that was not written is zeros; in `any` and `lying` also noise, or what stands in another file.
*/
typedef enum sim_profile { SIM_PREFIX, SIM_ORDERED, SIM_ANY, SIM_COPYING, SIM_LYING } sim_profile;
enum { SIM_HONEST = SIM_LYING };           /* so many profiles, the first ones, keep what they say they have saved */
const char *sim_profile_name(sim_profile p);

#define SIM_ROOT "/sim"                   /* the folder that is there from the beginning */

sim_disk *sim_new(void);
void sim_free(sim_disk *d);
sdm_fs *sim_fs(sim_disk *d);

/* What the machine finds when power comes back; under a new boot. The same numbers give the same disk. */
sim_disk *sim_power_loss(const sim_disk *d, sim_profile profile, uint64_t seed);

/* The same with exactly those unsynced changes that `which` names, each whole: bit i is the one at place i, in their order. */
enum { SIM_UNSYNCED_MAX = 16 };
size_t sim_unsynced(const sim_disk *d);
sim_disk *sim_power_loss_but(const sim_disk *d, uint64_t which);

sim_disk *sim_reboot(const sim_disk *d);  /* nothing was lost */

/* What other programs find when every process has died: all that programs saw, under the same boot. */
sim_disk *sim_death(const sim_disk *d);

/* After a sync that failed, what programs see of the file is what the medium has, as Btrfs has it; else it stays, as ext4 and XFS have it. */
void sim_set_reverting(sim_disk *d, bool reverting);

bool sim_changed(const sim_disk *d, uint64_t *mark);      /* since the last question with this mark: else there is no new state */

/* Called before each call that changes something, or may fail. A negative answer is the call's, without effect but for `partial` bytes of a write.
** SIM_CREATE is an open that makes the file. */
typedef enum sim_call { SIM_OPEN, SIM_CREATE, SIM_READ, SIM_WRITE, SIM_SYNC, SIM_TRUNCATE, SIM_ALLOCATE, SIM_SET_MODIFIED, SIM_MAP, SIM_RENAME,
                        SIM_LINK, SIM_UNLINK, SIM_MAKE_DIR, SIM_REMOVE_DIR, SIM_LIST, SIM_SYNC_DIR, SIM_CALLS } sim_call;
typedef int sim_hook(void *context, sim_call call, const char *path, size_t *partial);
void sim_set_hook(sim_disk *d, sim_hook *hook, void *context);
const char *sim_call_name(sim_call c);

/* A digest of everything that programs see in the folder, but the files that `leave_out` names: two disks alike have the same. */
uint64_t sim_digest(const sim_disk *d, bool (*leave_out)(const char *name));
void sim_each_file(const sim_disk *d, void (*f)(void *context, const char *path, int64_t size), void *context);
void sim_print(const sim_disk *d);        /* names and sizes, for a failure */

#endif

/* A real disk whose calls that change something, or may fail, succeed so many times; then one fails, or the process dies in its place. */
#ifndef SPEC_C_FAULTS_H
#define SPEC_C_FAULTS_H

#include "store/store.h"

typedef struct fault_plan {
  int countdown;                           /* calls that succeed before one fails; -1: all do */
  int code;                                /* that it fails with; 0: the process dies instead, with status FAULT_DIED */
} fault_plan;

enum { FAULT_DIED = 9 };

extern fault_plan faults;

sdm_fs *faults_fs(int code, int countdown);                /* that disk, for who opens a store on it */
void faults_use(sdm_store *s, int code, int countdown);    /* the store is on it from now on */
bool faults_end(sdm_store *s);             /* whether the call was reached; from now on all succeed */

#endif

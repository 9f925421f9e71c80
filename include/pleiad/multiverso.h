/* Multiverso's API for C, and the functions that report its errors. */
#ifndef PLEIAD_MULTIVERSO_H
#define PLEIAD_MULTIVERSO_H

#include "multiverso/c_api.h" /* IWYU pragma: export */
#include "pleiad/pleiad.h"    /* IWYU pragma: export */

#endif /* PLEIAD_MULTIVERSO_H */

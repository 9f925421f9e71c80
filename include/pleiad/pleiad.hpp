// The C++ API of libpleiad: sessions, tables, snapshots and data. Nets, plans, training and jobs have headers of their
// own.
#pragma once

#include "pleiad/data.h"      // IWYU pragma: export
#include "pleiad/dtype.h"     // IWYU pragma: export
#include "pleiad/error.h"     // IWYU pragma: export
#include "pleiad/options.h"   // IWYU pragma: export
#include "pleiad/rule.h"      // IWYU pragma: export
#include "pleiad/session.h"   // IWYU pragma: export
#include "pleiad/snapshot.h"  // IWYU pragma: export
#include "pleiad/table.h"     // IWYU pragma: export
#include "pleiad/view.h"      // IWYU pragma: export

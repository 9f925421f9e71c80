// The target of requests to tables.
#pragma once

#include "tests/fuzz/target.h"

namespace pleiad::fuzz {

/// Carries out `input` as a peer's request to the tables of a small world. The first byte is the operation, its highest
/// bit says that the request is a repeated one; the rest is the body.
void run_request(Input input);

}  // namespace pleiad::fuzz

// Fuzz target of requests to tables.
#pragma once

#include "tests/fuzz/target.h"

namespace pleiad::fuzz {

/// Carries out `input` as a request of another rank to the tables of a small world. The first byte is the operation,
/// and its highest bit marks a repeated request. The rest is the body.
void run_request(Input input);

}  // namespace pleiad::fuzz

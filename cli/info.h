// `pleiad info`: what this build and this machine are.
#pragma once

namespace pleiad::cli {

int print_info();

}  // namespace pleiad::cli

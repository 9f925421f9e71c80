// `pleiad info`: prints the version of this build and the properties of this machine.
#pragma once

namespace pleiad::cli {

int print_info();

}  // namespace pleiad::cli

// Checks that the store writers share.
#pragma once

#include <initializer_list>
#include <string>

#include "pleiad/data.h"

namespace pleiad::data {

/// These functions throw InvalidArgument if the format cannot hold the data. The message names the format, what it can
/// hold and what was received.
void expect_type(const WriterOptions& options, std::initializer_list<FieldType> types);
void expect_paths(const WriterOptions& options, std::size_t least, std::size_t most, const char* what);

}  // namespace pleiad::data

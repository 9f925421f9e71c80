// Marks the symbols that the shared library exports.
#pragma once

#define PLEIAD_API __attribute__((visibility("default")))

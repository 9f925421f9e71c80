// Marks what the shared library shows to the outside.
#pragma once

#define PLEIAD_API __attribute__((visibility("default")))

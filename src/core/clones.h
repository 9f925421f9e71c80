// PLEIAD_CLONES before a function compiles it for several instruction sets; the loader selects the best one for the
// CPU. The function must not be a template: put the loop in an always-inlined template and wrap it for each element
// type.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define PLEIAD_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PLEIAD_THREAD_SANITIZER 1
#endif
#endif

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(__clang__)
#define PLEIAD_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define PLEIAD_CLONES
#endif

#define PLEIAD_INLINE __attribute__((always_inline)) inline

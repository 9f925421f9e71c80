// A library to preload into mpirun, which delays the start of rank 1 (test_stops.py). SLOW_LAUNCHER selects how:
//   stopped  mpirun stops itself after rank 0 and before rank 1, as if it got no processor time
//   FILE     the process of rank 1 executes its program once FILE exists, as if its disk were slow
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

extern "C" int execve(const char* path, char* const* arguments, char* const* environment) {
  const char* const how = std::getenv("SLOW_LAUNCHER");
  for (char* const* one = environment; how != nullptr && one != nullptr && *one != nullptr; ++one) {
    const bool stops = std::strcmp(how, "stopped") == 0;
    if (stops && std::strcmp(*one, "PMIX_RANK=0") == 0) kill(getppid(), SIGSTOP);
    if (stops || std::strcmp(*one, "PMIX_RANK=1") != 0) continue;
    while (access(how, F_OK) != 0) usleep(10'000);
  }
  const auto next = reinterpret_cast<int (*)(const char*, char* const*, char* const*)>(dlsym(RTLD_NEXT, "execve"));
  return next(path, arguments, environment);
}

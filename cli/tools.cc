// The program pleiad-tools, which `pleiad` starts as: pleiad-tools COMMAND ARGS...
#include "tools.h"

#include <fmt/format.h>

#include <exception>
#include <map>
#include <string>

int main(int argc, char** argv) {
  using namespace pleiad::cli;
  const std::map<std::string, int (*)(const std::vector<std::string>&)> commands = {{"convert", run_convert},
                                                                                    {"explain", run_explain},
                                                                                    {"export", run_export},
                                                                                    {"import", run_import},
                                                                                    {"run", run_run}};
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--version") {
    fmt::print("pleiad " PLEIAD_VERSION "\n");
    return 0;
  }
  const auto command = commands.find(first);
  if (command == commands.end()) {
    fmt::print(stderr, "pleiad-tools: started by the command pleiad; try \"pleiad --help\"\n");
    return 2;
  }
  try {
    return command->second({argv + 2, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "pleiad {}: {}\n", command->first, error.what());
    return 1;
  }
}

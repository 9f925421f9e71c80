// The command `pleiad explain`: how a net would lie on ranks.
#include <fmt/format.h>

#include <exception>

#include "command_line.h"
#include "net_named.h"

namespace {

using namespace pleiad;
using cli::Words;

int run(const Words& words) {
  std::string name;
  int ranks = 2;
  std::int64_t batch = 64;
  PlanOptions options;
  bool layers = false;
  CLI::App app("Print which rank does what for a net, and the bytes that each exchanges in a step.", "pleiad explain");
  app.add_option(
         "NET", name,
         fmt::format("One of {}; a file that Net::text() fills; or a checkpoint's folder", join(example_nets())))
      ->required();
  app.add_option("-n,--ranks", ranks, "How many")->capture_default_str();
  app.add_option("-b,--batch", batch, "Of all ranks together")->capture_default_str();
  app.add_option("--plan", options.kind, "data, feature or hybrid")->capture_default_str();
  app.add_option("--split", options.split, "hybrid: the layers to cut by their outputs")->delimiter(',');
  app.add_flag("--layers", layers, "Print the net itself too: shapes, parameters, products");
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  const nn::Net net = cli::net_named(name);
  if (layers) fmt::print("{}", net.describe());
  fmt::print("{}", explain(make_plan(net, options, ranks, batch)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(Words(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    fmt::print(stderr, "pleiad explain: {}\n", error.what());
    return 1;
  }
}

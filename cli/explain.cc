// The command `pleiad explain`: how a net would lie on ranks.
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "command_line.h"
#include "pleiad/error.h"
#include "pleiad/plan.h"
#include "pleiad/train.h"

namespace {

using namespace pleiad;
using cli::Words;

nn::Net net_named(const std::string& name) {
  if (std::filesystem::is_directory(name)) return load_net(name);
  if (!std::filesystem::exists(name)) {
    try {
      return example_net(name);
    } catch (const InvalidArgument& mistake) {
      throw InvalidArgument(fmt::format("{}; nor is it a file or a checkpoint", mistake.what()));
    }
  }
  std::ifstream file(name, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw FileError(fmt::format("{}: cannot be read", name));
  return nn::net_from_text(text, name);
}

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
  app.add_option("--plan", options.kind, "data, feature, hybrid or spatial")->capture_default_str();
  app.add_option("--split", options.split, "hybrid: the layers to cut by their outputs")->delimiter(',');
  app.add_option("--grid", options.grid, "spatial: ROWSxCOLS, ROWSxCOLSxGROUPS, or auto: the likely fastest")
      ->capture_default_str();
  app.add_flag("--layers", layers, "Print the net itself too: shapes, parameters, products");
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  const nn::Net net = net_named(name);
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

// The command `pleiad explain`: how a net would lie on ranks.
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "command_line.h"
#include "pleiad/error.h"
#include "pleiad/job.h"
#include "pleiad/plan.h"
#include "pleiad/train.h"

namespace {

using namespace pleiad;
using cli::Words;

std::string text_of(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw FileError(fmt::format("{}: cannot be read", name));
  return text;
}

/// A file that is neither a folder nor JSON is a job.
bool is_job(const std::string& name) {
  if (!std::filesystem::is_regular_file(name)) return false;
  const std::string text = text_of(name);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] != '{';
}

nn::Net net_named(const std::string& name) {
  if (std::filesystem::is_directory(name)) return load_net(name);
  if (!std::filesystem::exists(name)) {
    try {
      return example_net(name);
    } catch (const InvalidArgument& mistake) {
      throw InvalidArgument(fmt::format("{}; nor is it a file or a checkpoint", mistake.what()));
    }
  }
  return nn::net_from_text(text_of(name), name);
}

int run(const Words& words) {
  std::string name;
  int ranks = 0;
  std::int64_t batch = 64;
  PlanOptions options;
  bool layers = false;
  CLI::App app("Print which rank does what for a net, and the bytes that each exchanges in a step.", "pleiad explain");
  app.add_option("NET", name,
                 fmt::format("One of {}; a job.conf; a file that Net::text() fills; or a checkpoint's folder",
                             join(example_nets())))
      ->required();
  app.add_option("-n,--ranks", ranks, "How many; a job says it itself, a net has 2");
  app.add_option("-b,--batch", batch, "Of all ranks together")->capture_default_str();
  app.add_option("--plan", options.kind, "data, feature or hybrid")->capture_default_str();
  app.add_option("--split", options.split, "hybrid: the layers to cut by their outputs")->delimiter(',');
  app.add_flag("--layers", layers, "Print the net itself too: shapes, parameters, products");
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  if (is_job(name)) {
    const Job job = Job::from_file(name);
    if (layers) fmt::print("{}", net_of_job(job).describe());
    fmt::print("{}", explain_job(job, ranks));
    return 0;
  }
  const nn::Net net = net_named(name);
  if (layers) fmt::print("{}", net.describe());
  fmt::print("{}", explain(make_plan(net, options, ranks > 0 ? ranks : 2, batch)));
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

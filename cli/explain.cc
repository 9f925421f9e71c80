// The command `pleiad explain`: prints how a net would be split over ranks.
#include <fmt/format.h>

#include "command_line.h"
#include "net_named.h"
#include "pleiad/job.h"
#include "tools.h"

using namespace pleiad;
using cli::Words;

namespace {

/// A file whose first character is not that of JSON is a job.
bool is_job(const std::string& name) {
  if (!std::filesystem::is_regular_file(name)) return false;
  std::ifstream file(name, std::ios::binary);
  char first = '{';
  file >> first;
  return first != '{';
}

}  // namespace

int pleiad::cli::run_explain(const Words& words) {
  std::string name;
  int ranks = 0;
  std::int64_t batch = 64;
  PlanOptions options;
  std::string plan(options.kind.text());
  bool layers = false;
  CLI::App app("Print which rank does what for a net, and the bytes that each exchanges in a step.", "pleiad explain");
  app.add_option("NET", name,
                 fmt::format("One of {}; a job.conf; a file written from Net::text(); or the folder of a checkpoint",
                             join(example_nets())))
      ->required();
  app.add_option("-n,--ranks", ranks, "Number of ranks; default: that of the job, or 2 for a net");
  app.add_option("-b,--batch", batch, "Batch size over all ranks")->capture_default_str();
  app.add_option("--plan", plan, "data, feature, hybrid or spatial")->capture_default_str();
  app.add_option("--split", options.split, "hybrid: the layers to split by their outputs")->delimiter(',');
  app.add_option("--grid", options.grid, "spatial: ROWSxCOLS, ROWSxCOLSxGROUPS, or auto (expected to be the fastest)")
      ->capture_default_str();
  app.add_flag("--layers", layers, "Also print the net itself: shapes, parameters, multiplications");
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  options.kind = plan;
  if (is_job(name)) {
    const Job job = Job::from_file(name);
    if (layers) fmt::print("{}", describe_job(job));
    fmt::print("{}", explain_job(job, ranks));
    return 0;
  }
  const nn::Net net = cli::net_named(name);
  if (layers) fmt::print("{}", net.describe());
  fmt::print("{}", explain(make_plan(net, options, ranks > 0 ? ranks : 2, batch)));
  return 0;
}

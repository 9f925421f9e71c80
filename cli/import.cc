// The command `pleiad import`: makes a checkpoint from parameters that another program has trained.
#include <fmt/format.h>

#include "command_line.h"
#include "core/text.h"
#include "net_named.h"
#include "pleiad/job.h"
#include "tools.h"

using namespace pleiad;
using cli::Words;

int pleiad::cli::run_import(const Words& words) {
  std::string path;
  std::string checkpoint;
  std::string name;
  std::string rule = "sgd";
  std::string job;
  std::int64_t step = 0;
  Words modules;
  CLI::App app("Make a checkpoint of a net and a safetensors file, or a state dict that torch.save wrote.",
               "pleiad import");
  app.add_option("FILE", path, "The numbers, in PyTorch's layout or ours")->required();
  app.add_option("CHECKPOINT", checkpoint, "The folder to make")->required();
  app.add_option(
      "--net", name,
      fmt::format("One of {}; a file that Net::text() fills; or a checkpoint's folder", join(example_nets())));
  app.add_option("--job", job, "In place of --net a job.conf: CHECKPOINT is then a file as SINGA's are");
  app.add_option("--step", step, "With --job: the step that the checkpoint says it is of")->capture_default_str();
  app.add_option("--module", modules, "LAYER=MODULE: the name of a layer's module in the file")->delimiter(',');
  app.add_option("--rule", rule, "The update rule that is to go on with it")->capture_default_str();
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  if (job.empty() == name.empty()) return cli::fail(app, "expected --net or --job, and not both");
  if (!job.empty()) {
    import_job_checkpoint(Job::from_file(job), path, checkpoint, step);
    fmt::print("{}: a checkpoint of {}, at step {}\n", checkpoint, job, step);
    return 0;
  }
  std::vector<std::pair<std::string, std::string>> named;
  for (const std::string& word : modules) {
    const std::size_t at = word.find('=');
    if (at == std::string::npos) return cli::fail(app, fmt::format("expected LAYER=MODULE; received \"{}\"", word));
    named.emplace_back(word.substr(0, at), word.substr(at + 1));
  }
  nn::Net net = cli::net_named(name);
  import_parameters(net, path, named);
  Trainer(net, {.updater = {.rule = rule}, .exchange = "none"}).save(checkpoint);
  std::int64_t count = 0;
  for (const nn::Parameter& parameter : net.parameters()) count += parameter.value.count();
  fmt::print("{}: a checkpoint of \"{}\", {} parameters, at step 0\n", checkpoint, net.options().name, grouped(count));
  return 0;
}

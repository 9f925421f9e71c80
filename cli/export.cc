// The command `pleiad export`: writes the parameters of a checkpoint as safetensors.
#include <fmt/format.h>

#include "command_line.h"
#include "core/text.h"
#include "net_named.h"
#include "pleiad/job.h"
#include "tools.h"

using namespace pleiad;
using cli::Words;

int pleiad::cli::run_export(const Words& words) {
  std::string checkpoint;
  std::string path;
  std::string layout;
  std::string job;
  CLI::App app("Write the parameters of a checkpoint as a safetensors file.", "pleiad export");
  app.footer("model.load_state_dict(safetensors.torch.load_file(FILE)) takes the layout torch.");
  app.add_option("CHECKPOINT", checkpoint, "Its folder; of a job, SINGA's file too (stepN-worker0)")->required();
  app.add_option("FILE", path, "Where to")->required();
  app.add_option("--job", job, "The job.conf that the checkpoint is of");
  app.add_option("--layout", layout,
                 "torch (usual): names and order of PyTorch's modules; pleiad: as they are; singa (usual with --job): "
                 "names and order of SINGA's checkpoints");
  bool done = false;
  if (const int code = cli::parse(app, words, done); done) return code;
  if (!job.empty()) {
    if (layout.empty()) layout = "singa";
    export_job_checkpoint(Job::from_file(job), checkpoint, path, layout);
    fmt::print("{}: the parameters of {} in the layout {}\n", path, checkpoint, layout);
    return 0;
  }
  if (layout.empty()) layout = "torch";
  const nn::Net net = load_net(checkpoint);
  export_parameters(net, path, layout);
  std::int64_t count = 0;
  for (const nn::Parameter& parameter : net.parameters()) count += parameter.value.count();
  fmt::print("{}: {} parameters in the layout {}\n", path, grouped(count), layout);
  return 0;
}

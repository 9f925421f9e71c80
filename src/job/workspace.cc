#include "job/workspace.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/process.h"
#include "file/atomic.h"
#include "file/series.h"
#include "pleiad/error.h"

namespace pleiad::job {
namespace {

namespace fs = std::filesystem;
using RunJson = nlohmann::ordered_json;

constexpr const char* kRun = "run.json";
constexpr const char* kLock = "run.lock";
constexpr const char* kAside = "state.";  // prefix of the states of earlier runs: state.ID

/// Returns nothing if the file does not exist or cannot be parsed.
std::optional<RunRecord> read_run(const fs::path& path) {
  std::ifstream file(path);
  const auto all = nlohmann::json::parse(file, nullptr, false);
  if (!all.is_object()) return {};
  RunRecord run;
  try {
    run.id = all.value("id", "");
    run.job = all.value("job", "");
    run.started = all.value("started", "");
    run.host = all.value("host", "");
    run.pid = all.value("pid", std::int64_t{0});
    run.status = all.value("status", "");
    run.step = all.value("step", std::int64_t{0});
  } catch (const nlohmann::json::exception&) {
    return {};
  }
  return run;
}

void write_run(const fs::path& path, const RunRecord& run) {
  const RunJson all = {{"id", run.id},   {"job", run.job},       {"started", run.started}, {"host", run.host},
                       {"pid", run.pid}, {"status", run.status}, {"step", run.step}};
  const std::string text = all.dump(1) + "\n";
  write_whole_file(path, std::as_bytes(std::span(text)));
}

std::string new_id() {
  std::random_device random;
  return fmt::format("{:%Y%m%d-%H%M%S}-{:08x}", fmt::localtime(std::time(nullptr)), random());
}

/// Moves the state of the last run aside and deletes the older ones.
std::string move_aside(const std::string& workspace, const std::string& id) {
  const fs::path state = state_folder(workspace);
  std::error_code problem;
  if (!fs::exists(state, problem)) return {};
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(state.parent_path(), problem)) {
    if (entry.path().filename().string().starts_with(kAside)) old.push_back(entry.path());
  }
  for (const fs::path& path : old) fs::remove_all(path, problem);
  const fs::path to = state.parent_path() / (kAside + (id.empty() ? std::string("before") : id));
  fs::rename(state, to, problem);
  if (problem) {
    throw FileError(
        fmt::format("{}: the state of the last run cannot be moved aside: {}", state.string(), problem.message()));
  }
  return to.string();
}

std::string how_it_ended(const RunRecord& run) {
  if (run.status == "running") return fmt::format("was killed or crashed; its last checkpoint is of step {}", run.step);
  return fmt::format("{} at step {}", run.status, run.step);
}

}  // namespace

Workspace::Workspace(std::string folder, const std::string& job) : folder_(std::move(folder)) {
  make_folder(folder_);
  const std::string path = folder_ + "/" + kLock;
  last_ = read_run(folder_ + "/" + kRun);
  lock_ = OwnerLock::take(path);
  if (!lock_) {
    const std::string who = last_ ? fmt::format("the run \"{}\" (process {} on {}, started {})", last_->job, last_->pid,
                                                last_->host, last_->started)
                                  : std::string("another run");
    throw FileError(
        fmt::format("workspace {}: {} is using it; wait until it ends, or give this job another "
                    "cluster.workspace",
                    folder_, who));
  }
  own_ = {.id = new_id(),
          .job = job,
          .started = fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr))),
          .host = host_name(),
          .pid = getpid(),
          .status = {}};
}

Workspace::~Workspace() {
  try {
    if (own_.status == "running") write("failed", own_.step);
  } catch (const FileError&) {
    // The record still says "running", which the next run takes for a crash.
  }
}

std::string Workspace::begin() {
  const std::string aside = move_aside(folder_, last_ ? last_->id : "");
  write("running", 0);
  if (!last_ || last_->pid == own_.pid) return {};  // the same script continues
  return fmt::format("the last run of this workspace, \"{}\" (started {}), {}; this run starts at step 0{}", last_->job,
                     last_->started, how_it_ended(*last_),
                     aside.empty() ? "" : fmt::format(" (-resume continues a run; the old state is now {})", aside));
}

void Workspace::resume() {
  if (!last_) {
    write("running", 0);
    return;
  }
  if (last_->job != own_.job) {
    throw FileError(
        fmt::format("workspace {}: -resume continues the run that used it last, which is \"{}\" (started {}); this job "
                    "is \"{}\"",
                    folder_, last_->job, last_->started, own_.job));
  }
  own_.id = last_->id;
  own_.started = last_->started;
  write("running", last_->step);
}

void Workspace::write(const std::string& status, std::int64_t step) {
  own_.status = status;
  own_.step = step;
  write_run(folder_ + "/" + kRun, own_);
}

std::string state_folder(const std::string& workspace) { return workspace + "/checkpoint/state"; }

std::int64_t step_of_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  long long step = -1;
  int worker = -1;
  int end = 0;
  if (std::sscanf(name.c_str(), "step%lld-worker%d%n", &step, &worker, &end) != 2) return -1;
  return static_cast<std::size_t>(end) == name.size() && step >= 0 ? step : -1;
}

std::string last_checkpoint_file(const std::string& workspace) {
  std::string last;
  std::int64_t most = -1;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(workspace + "/checkpoint", problem)) {
    const std::string path = entry.path().string();
    const std::int64_t step = path.ends_with("-worker0") ? step_of_file(path) : -1;
    if (step <= most) continue;
    most = step;
    last = path;
  }
  return last;
}

}  // namespace pleiad::job

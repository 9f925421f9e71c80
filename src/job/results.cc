#include "job/results.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "core/process.h"
#include "core/text.h"
#include "file/atomic.h"
#include "file/series.h"
#include "pleiad/error.h"

namespace pleiad::job {
namespace {

constexpr const char* kColumns[] = {"loss", "acc", "se", "ppl"};
constexpr const char* kHeader = "step,phase,loss,acc,se,ppl,samples_per_second\n";

std::string csv_line(const JobReport& report) {
  std::string line = fmt::format("{},{}", report.step, report.phase);
  for (const char* const column : kColumns) {
    const auto found = std::ranges::find(report.metrics, column, [](const auto& metric) { return metric.first; });
    line += found == report.metrics.end() ? "," : fmt::format(",{:.9g}", found->second);
  }
  return line + fmt::format(",{:.6g}\n", report.samples_per_second);
}

/// Parses a line of results.csv; empty if it is not a report.
std::optional<JobReport> report_of(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> cells;
  for (std::string cell; std::getline(words, cell, ',');) cells.push_back(cell);
  if (cells.size() != 7 || (cells[1] != "train" && cells[1] != "test" && cells[1] != "validate")) return {};
  try {
    JobReport report{.step = std::stoll(cells[0]), .phase = cells[1], .metrics = {}};
    for (std::size_t i = 0; i < 4; ++i) {
      if (!cells[i + 2].empty()) report.metrics.emplace_back(kColumns[i], std::stod(cells[i + 2]));
    }
    report.samples_per_second = std::stod(cells[6]);
    return report;
  } catch (const std::exception&) {
    return {};
  }
}

std::FILE* open_file(const std::string& path, const char* mode) {
  std::FILE* const file = std::fopen(path.c_str(), mode);
  if (file == nullptr) throw FileError(fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
  return file;
}

/// Waits until a write of a line to stderr would not block. Returns false after patience_ns, and true for a closed
/// stderr.
bool stderr_takes(std::int64_t patience_ns) {
  const std::int64_t deadline = now_ns() + patience_ns;
  for (;;) {
    pollfd watched = {.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    const std::int64_t left = std::max<std::int64_t>(deadline - now_ns(), 0);
    if (poll(&watched, 1, static_cast<int>(left / 1'000'000)) > 0) return true;
    if (now_ns() >= deadline) return false;
  }
}

}  // namespace

std::string report_text(const JobReport& report) {
  std::string name = report.phase;
  name[0] = static_cast<char>(std::toupper(name[0]));
  std::string text = fmt::format("{} step {}:", name, report.step);
  for (std::size_t i = 0; i < report.metrics.size(); ++i) {
    text += fmt::format("{} {} {:.5g}", i == 0 ? "" : ",", report.metrics[i].first, report.metrics[i].second);
  }
  return text + fmt::format(" ({} samples/s)", grouped(static_cast<std::int64_t>(report.samples_per_second)));
}

std::string progress_line(const std::string& job, const JobReport& latest, std::int64_t steps, double seconds_left) {
  std::string text = fmt::format("{}: step {} of {}", job, latest.step, steps);
  for (const auto& [name, value] : latest.metrics) text += fmt::format(", {} {:.4g}", name, value);
  text += fmt::format(", {} samples/s", grouped(static_cast<std::int64_t>(latest.samples_per_second)));
  const auto left = static_cast<std::int64_t>(seconds_left + 0.5);
  if (left < 60) return text + fmt::format(", {} s left", left);
  if (left < 3600) return text + fmt::format(", {}:{:02} min left", left / 60, left % 60);
  return text + fmt::format(", {}:{:02} h left", left / 3600, left % 3600 / 60);
}

Results::Results(std::string workspace, std::string display, std::string job, std::int64_t steps)
    : workspace_(std::move(workspace)),
      display_(std::move(display)),
      job_(std::move(job)),
      steps_(steps),
      started_ns_(now_ns()) {
  if (workspace_.empty()) return;
  make_folder(workspace_);
  log_ = open_file(workspace_ + "/job.log", "a");
}

Results::~Results() {
  clear_live();
  if (csv_ != nullptr) std::fclose(csv_);
  if (log_ != nullptr) std::fclose(log_);
}

void Results::resume(std::int64_t step) {
  if (workspace_.empty()) return;
  std::ifstream old(workspace_ + "/results.csv");
  for (std::string line; std::getline(old, line);) {
    if (const auto report = report_of(line); report && report->step < step) reports_.push_back(*report);
  }
}

void Results::keep() {
  if (workspace_.empty()) return;
  std::ifstream file(workspace_ + "/results.json");
  const auto before = nlohmann::json::parse(file, nullptr, false);
  if (before.is_object() && before.contains("job") && before["job"] == job_) {
    resume(std::numeric_limits<std::int64_t>::max());
  }
}

bool Results::show(const std::string& text, std::int64_t patience_ns) {
  if (!stderr_takes(patience_ns)) return false;
  if (left_out_ > 0) {
    fmt::print(stderr, "pleiad: {} lines are missing here because nobody read them{}\n", std::exchange(left_out_, 0),
               log_ == nullptr ? "" : fmt::format("; {}/job.log has them", workspace_));
    if (!stderr_takes(0)) return false;
  }
  fmt::print(stderr, "{}", text);
  std::fflush(stderr);
  return true;
}

void Results::clear_live() {
  if (live_) (void)show("\r\x1b[K", 0);
  live_ = false;
}

void Results::line(const std::string& text) {
  clear_live();
  // waits once; later lines do not wait for a reader that has stopped
  constexpr std::int64_t kPatience = 2'000'000'000;
  if (display_ != "off" && !show(text + "\n", left_out_ == 0 ? kPatience : 0)) ++left_out_;
  if (log_ == nullptr) return;
  fmt::print(log_, "{:%Y-%m-%d %H:%M:%S} {}\n", fmt::localtime(std::time(nullptr)), text);
  std::fflush(log_);
}

void Results::add(const JobReport& report) {
  reports_.push_back(report);
  line(report_text(report));
  if (workspace_.empty()) return;
  if (csv_ == nullptr) {
    csv_ = open_file(workspace_ + "/results.csv", "w");
    fmt::print(csv_, "{}", kHeader);
    for (const JobReport& each : reports_) fmt::print(csv_, "{}", csv_line(each));
  } else {
    fmt::print(csv_, "{}", csv_line(report));
  }
  std::fflush(csv_);
}

bool Results::tick_due() const {
  constexpr std::int64_t kEvery = 200'000'000;
  return display_ == "live" && (!live_ || now_ns() - shown_ns_ >= kEvery);
}

void Results::tick(const JobReport& latest, std::int64_t samples) {
  const std::int64_t now = now_ns();
  if (first_step_ < 0) {
    first_step_ = shown_step_ = latest.step - 1;
    shown_ns_ = started_ns_;
  }
  const double seconds = static_cast<double>(now - started_ns_) / 1e9;
  const double left =
      seconds / static_cast<double>(latest.step - first_step_) * static_cast<double>(steps_ - latest.step);
  JobReport shown = latest;
  shown.samples_per_second = static_cast<double>((latest.step - shown_step_) * samples) * 1e9 /
                             static_cast<double>(std::max<std::int64_t>(now - shown_ns_, 1));
  shown_ns_ = now;
  shown_step_ = latest.step;
  live_ = show("\r\x1b[K" + progress_line(job_, shown, steps_, left), 0);
}

void Results::write_json() const {
  if (workspace_.empty()) return;
  nlohmann::ordered_json all = {{"job", job_}, {"reports", nlohmann::ordered_json::array()}};
  for (const JobReport& report : reports_) {
    nlohmann::ordered_json one = {{"step", report.step}, {"phase", report.phase}};
    for (const auto& [name, value] : report.metrics) {
      if (std::isfinite(value)) one[name] = value;
    }
    one["samples_per_second"] = report.samples_per_second;
    all["reports"].push_back(std::move(one));
  }
  const std::string text = all.dump(1) + "\n";
  write_whole_file(workspace_ + "/results.json", std::as_bytes(std::span(text)));
}

}  // namespace pleiad::job

#include "core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {
namespace {

std::mutex sink_mutex;
std::shared_ptr<const LogSink> program_sink;  // guarded by sink_mutex; null: stderr

std::shared_ptr<const LogSink> current_sink() {
  const std::scoped_lock lock(sink_mutex);
  return program_sink;
}

const char* name_of_level(spdlog::level::level_enum level) {
  if (level <= spdlog::level::debug) return "debug";
  if (level == spdlog::level::info) return "info";
  return level == spdlog::level::warn ? "warn" : "error";
}

/// Passes each line to the program's sink if there is one, and otherwise to stderr.
class SwitchingSink final : public spdlog::sinks::sink {
 public:
  explicit SwitchingSink(std::string origin) : origin_(std::move(origin)) {}
  void log(const spdlog::details::log_msg& message) override {
    if (const auto programs_own = current_sink()) {
      (*programs_own)(
          name_of_level(message.level),
          fmt::format("[{}] {}", origin_, std::string_view(message.payload.data(), message.payload.size())));
    } else {
      stderr_.log(message);
    }
  }
  void flush() override { stderr_.flush(); }
  void set_pattern(const std::string& pattern) override { stderr_.set_pattern(pattern); }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    stderr_.set_formatter(std::move(formatter));
  }

 private:
  const std::string origin_;  // rank and host
  spdlog::sinks::stderr_sink_mt stderr_;
};

}  // namespace

void set_log_sink(LogSink sink) {
  auto next = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  const std::scoped_lock lock(sink_mutex);
  program_sink = std::move(next);
}

std::vector<std::string> log_levels() { return {"debug", "info", "warn", "error", "off"}; }

Log::Log(std::string_view level, int rank, int size, std::string_view host)
    : logger_(std::make_unique<spdlog::logger>(
          "pleiad", std::make_shared<SwitchingSink>(fmt::format("rank {}/{} {}", rank, size, host)))) {
  const auto levels = log_levels();
  if (std::find(levels.begin(), levels.end(), level) == levels.end()) {
    throw InvalidArgument(unknown_name("log level", level, levels));
  }
  logger_->set_level(spdlog::level::from_str(std::string(level)));
  logger_->set_pattern(fmt::format("[pleiad %H:%M:%S.%e rank {}/{} {}] %l: %v", rank, size, host));
  logger_->flush_on(spdlog::level::debug);
}

Log::~Log() = default;

void Log::debug(std::string_view line) const { logger_->debug("{}", line); }
void Log::info(std::string_view line) const { logger_->info("{}", line); }
void Log::warn(std::string_view line) const { logger_->warn("{}", line); }
void Log::error(std::string_view line) const { logger_->error("{}", line); }
void Log::print(std::string_view line) const {
  spdlog::level::level_enum level = logger_->level();
  logger_->log(level == spdlog::level::off ? spdlog::level::critical : std::max(level, spdlog::level::info), "{}",
               line);
}

}  // namespace pleiad

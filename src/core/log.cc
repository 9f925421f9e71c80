#include "core/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "core/text.h"
#include "pleiad/error.h"

namespace pleiad {

std::vector<std::string> log_levels() { return {"debug", "info", "warn", "error", "off"}; }

Log::Log(std::string_view level, int rank, int size, std::string_view host)
    : logger_(std::make_unique<spdlog::logger>("pleiad", std::make_shared<spdlog::sinks::stderr_sink_mt>())) {
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

// The learning-rate schedules. To add one, add an entry to kSchedules.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/text.h"
#include "pleiad/error.h"
#include "pleiad/nn/init.h"

namespace pleiad::nn {
namespace {

struct ScheduleEntry {
  const char* name;
  double (*rate)(const Schedule&, double step);
  void (*check)(const Schedule&) = nullptr;  ///< throws InvalidArgument if its settings are invalid
};

double fixed_step(const Schedule& s, double step) {
  double rate = s.rates.front();
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    if (step >= static_cast<double>(s.steps[i])) rate = s.rates[i];
  }
  return rate;
}

void check_fixed_step(const Schedule& s) {
  if (!s.steps.empty() && s.steps.size() == s.rates.size() && std::ranges::is_sorted(s.steps)) return;
  throw InvalidArgument(fmt::format(
      "schedule \"fixed_step\": expected increasing steps and one rate per step; received {} steps and {} rates",
      s.steps.size(), s.rates.size()));
}

void check_inverse_t(const Schedule& s) {
  if (s.final == 0) throw InvalidArgument("schedule \"inverse_t\": expected final other than 0; received 0");
}

void check_momentum(const Schedule& s) {
  if (s.freq > s.start) return;
  throw InvalidArgument(
      fmt::format("schedule \"momentum\": expected freq > start; received {} and {}", s.freq, s.start));
}

double share(const Schedule& s, double step) { return step / static_cast<double>(s.freq); }

const ScheduleEntry kSchedules[] = {
    {"cosine",
     [](const Schedule& s, double t) {
       return s.final + (s.base - s.final) * (1 + std::cos(std::numbers::pi * std::min(share(s, t), 1.0))) / 2;
     }},
    {"epochs", [](const Schedule& s, double e) { return s.base * std::pow(s.gamma, std::floor(share(s, e + 1))); }},
    {"exponential", [](const Schedule& s, double t) { return s.base / std::exp2(share(s, t)); }},
    {"fixed", [](const Schedule& s, double) { return s.base; }},
    {"fixed_step", fixed_step, check_fixed_step},
    {"inverse", [](const Schedule& s, double t) { return s.base * std::pow(1 + s.gamma * t, -s.power); }},
    {"inverse_t", [](const Schedule& s, double t) { return s.base / (1 + t / s.final); }, check_inverse_t},
    {"linear", [](const Schedule& s, double t) { return (1 - share(s, t)) * s.base + share(s, t) * s.final; }},
    {"momentum",
     [](const Schedule& s, double t) {
       const double begin = static_cast<double>(s.start);
       const double along = std::clamp((t - begin) / (static_cast<double>(s.freq) - begin), 0.0, 1.0);
       return s.base + along * (s.final - s.base);
     },
     check_momentum},
    {"step", [](const Schedule& s, double t) { return s.base * std::pow(s.gamma, std::floor(share(s, t))); }},
};

const ScheduleEntry& find(const Schedule& schedule) {
  const auto* const entry = std::ranges::find(kSchedules, schedule.type, &ScheduleEntry::name);
  if (entry == std::end(kSchedules)) throw InvalidArgument(unknown_name("schedule", schedule.type, schedule_names()));
  return *entry;
}

}  // namespace

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : kSchedules) names.emplace_back(entry.name);
  return names;
}

void check(const Schedule& s) {
  const ScheduleEntry& entry = find(s);
  if (s.freq < 1)
    throw InvalidArgument(fmt::format("schedule \"{}\": expected freq >= 1; received {}", s.type, s.freq));
  if (s.warmup < 0)
    throw InvalidArgument(fmt::format("schedule \"{}\": expected warmup >= 0; received {}", s.type, s.warmup));
  if (entry.check != nullptr) entry.check(s);
}

double rate_at(const Schedule& schedule, std::int64_t step) {
  const ScheduleEntry& entry = find(schedule);
  if (step >= schedule.warmup) return entry.rate(schedule, static_cast<double>(step - schedule.warmup));
  const double along = static_cast<double>(step) / static_cast<double>(schedule.warmup);
  return schedule.warmup_from + along * (entry.rate(schedule, 0) - schedule.warmup_from);
}

}  // namespace pleiad::nn
